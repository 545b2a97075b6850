"""A token corpus on disk, and masked blocks of it.

Texts are tokenised in pieces and appended to one file of little-endian int32 ids, each text ended
by [SEP]; training maps the file into memory, so neither step needs the corpus to fit there. Block i
of epoch e is [CLS], the L - 2 ids from e's offset + i*(L - 2) on, [SEP].
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cli.files import replacing
from cli.progress import progress

import numpy as np
import numpy.typing as npt
from transformers import BertTokenizer

from train.batches import Batch
from train.failure import TrainError
from train.tokens import SpecialTokens, special_tokens

_IDS = np.dtype("<i4")
_PIECE = 1000  # texts that are tokenised together
_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1  # of the chosen places; the rest keeps its token

UNCHOSEN = -100  # target of the places that are not predicted, as torch's cross entropy has it


@dataclass(frozen=True)
class Corpus:
    """Ids of all texts [tokens] (memory-mapped) and what a block needs to know."""

    ids: npt.NDArray[np.int32]
    special: SpecialTokens
    vocabulary: int


def write_tokens(texts: Iterable[str], tokenizer: BertTokenizer, path: Path, source: str) -> int:
    """Tokenise ``texts`` into ``path``, atomically, and ``source`` beside it; the number of ids."""
    separator = special_tokens(tokenizer).sep
    fast = tokenizer.backend_tokenizer
    fast.no_truncation()
    fast.no_padding()
    count = 0
    shown = iter(progress(texts, f"tokens into {path}"))
    with replacing(path) as temporary, temporary.open("wb") as file:
        while piece := list(islice(shown, _PIECE)):
            for encoding in fast.encode_batch(piece, add_special_tokens=False):
                ids = np.array([*encoding.ids, separator], _IDS)
                file.write(ids.tobytes())
                count += len(ids)
    with replacing(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps({"source": source, "tokens": count}) + "\n")
    return count


def open_tokens(path: Path, tokenizer: BertTokenizer, source: str) -> Corpus | None:
    """The corpus that ``write_tokens`` made of ``source``, or None when it has to be made."""
    try:
        written = json.loads(path.with_suffix(".json").read_text())
    except (OSError, json.JSONDecodeError):
        return None
    if written.get("source") != source or not path.exists():
        return None
    if path.stat().st_size != written["tokens"] * _IDS.itemsize:
        return None
    ids = np.memmap(path, _IDS, mode="r")
    return Corpus(ids, special_tokens(tokenizer), len(tokenizer))


class Blocks:
    """Blocks of ``length`` tokens to train on; the last ``held_out`` of the corpus validate."""

    def __init__(self, corpus: Corpus, *, length: int, held_out: int, seed: int) -> None:
        self.corpus = corpus
        self.stride = length - 2
        self.seed = seed
        # One block is given up so that every epoch can begin at an offset of its own.
        self.count = len(corpus.ids) // self.stride - 1 - held_out
        self.held_out = held_out
        if self.count < 1:
            raise TrainError(
                f"the corpus has {len(corpus.ids)} tokens: too few for one training block of "
                f"{length} tokens beside {held_out} for validation"
            )

    def epoch(self, epoch: int) -> tuple[int, npt.NDArray[np.int64]]:
        """The offset of an epoch's blocks and their order."""
        rng = np.random.default_rng((self.seed, epoch))
        return int(rng.integers(self.stride)), rng.permutation(self.count)

    def read(self, indices: Iterable[int], offset: int) -> npt.NDArray[np.int64]:
        """Blocks [n, length]."""
        ids, special = self.corpus.ids, self.corpus.special
        indices = list(indices)
        blocks = np.empty((len(indices), self.stride + 2), np.int64)
        blocks[:, 0], blocks[:, -1] = special.cls, special.sep
        for row, index in enumerate(indices):
            start = offset + int(index) * self.stride
            blocks[row, 1:-1] = ids[start : start + self.stride]
        return blocks

    def validation(self, size: int) -> Iterator[npt.NDArray[np.int64]]:
        """The held-out blocks, in batches; they lie behind all that training reads."""
        indices = range(self.count + 1, self.count + 1 + self.held_out)
        for start in range(0, len(indices), size):
            yield self.read(indices[start : start + size], 0)


def mask(
    blocks: npt.NDArray[np.int64],
    corpus: Corpus,
    rng: np.random.Generator,
    *,
    share: float = 0.15,
) -> tuple[Batch, npt.NDArray[np.int64]]:
    """Masked blocks and their targets [n, length] (Devlin et al., "BERT", 2019, section 3.1).

    Every token but [CLS] and [SEP] is chosen with probability ``share``; a chosen one becomes
    [MASK] (80 %), a random token of the vocabulary (10 %) or stays (10 %). The target is the token
    where one was chosen, else UNCHOSEN.
    """
    special = corpus.special
    chosen = (rng.random(blocks.shape) < share) & ~np.isin(blocks, [special.cls, special.sep])
    kind = rng.random(blocks.shape)
    shown = np.where(chosen & (kind < _MASK_SHARE), special.mask, blocks)
    other = chosen & (kind >= _MASK_SHARE) & (kind < _MASK_SHARE + _RANDOM_SHARE)
    shown = np.where(other, rng.integers(corpus.vocabulary, size=blocks.shape), shown)
    return Batch(shown, np.ones_like(shown)), np.where(chosen, blocks, UNCHOSEN)
