"""The work of `train.bench`: three models take turns on the same texts."""

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from cli.errors import Different
from cli.files import write_json
from cli.progress import progress

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from golden import encoder, fast, store
from golden.model import Model
from golden.random import random_model
from quant.calibrate import calibrated
from quant.foreign.config import CONFIG, read
from quant.foreign.tokenizer import TextTokenizer
from quant.texts.corpora import imdb
from train.choices import BASE_NAME, BASE_TOKENS, BATCHES, LENGTHS, SHAPES
from train.failure import TrainError


@dataclass(frozen=True)
class Row:
    """Milliseconds of a batch: the fastest turn and the median of all."""

    model: str
    tokens: int
    batch: int
    float_ms: float
    float_median_ms: float
    golden_ms: float
    golden_median_ms: float
    int8_ms: float
    int8_median_ms: float

    @property
    def speedup(self) -> float:
        """How many times as fast golden is as float."""
        return self.float_ms / self.golden_ms

    @property
    def of_int8(self) -> float:
        """How many times as fast golden is as onnxruntime's dynamic INT8."""
        return self.int8_ms / self.golden_ms

    def line(self) -> str:
        return (
            f"{self.model:16}{self.tokens:7,}{self.batch:7,}"
            f"{self.float_ms:12,.2f}{self.int8_ms:12,.2f}{self.golden_ms:12,.2f}"
            f"{self.batch * 1000 / self.golden_ms:12,.1f}{self.speedup:11.2f}x{self.of_int8:11.2f}x"
        )


HEADER = (
    f"{'model':16}{'tokens':>7}{'batch':>7}{'float ms':>12}{'INT8 ms':>12}{'golden ms':>12}"
    f"{'golden /s':>12}{'of float':>12}{'of INT8':>12}"
)


class _Logits(torch.nn.Module):
    """The classifier as a graph of two inputs and one output."""

    def __init__(self, model: BertForSequenceClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=ids, attention_mask=mask).logits
        return logits


def dynamic_int8(reference: BertForSequenceClassification, threads: int) -> Any:
    """A session of onnxruntime with the model's weights in INT8; inputs ids and mask."""
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic

    ids = torch.ones((2, 8), dtype=torch.long)
    axes = {name: {0: "texts", 1: "tokens"} for name in ("ids", "mask")}
    attention = reference.config._attn_implementation
    reference.set_attn_implementation("eager")
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            graph, integers = (str(Path(folder, f"{name}.onnx")) for name in ("float", "int8"))
            torch.onnx.export(
                _Logits(reference),
                (ids, ids),
                graph,
                input_names=list(axes),
                output_names=["logits"],
                dynamic_axes=axes,
                opset_version=17,
                dynamo=False,
            )
            quantize_dynamic(graph, integers)
        finally:
            logging.disable(logging.NOTSET)
            reference.set_attn_implementation(attention)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(integers, options, ["CPUExecutionProvider"])


def measure(
    name: str,
    model: Model,
    reference: BertForSequenceClassification,
    int8: Any,
    ids: np.ndarray,
    repeats: int,
    compared: int | None = None,
) -> Row:
    """All three models on ids [batch, tokens], in turns.

    Raises Different where the fast engine differs from the plain functions, on the texts that are
    compared: all, or the first so many.
    """
    batch = list(ids)
    for text, logits in zip(batch[:compared], fast.run_batch(model, batch)):
        plain = encoder.run(model, text)
        if (plain != logits).any():
            raise Different(f"{name}: golden.fast gives {logits} where golden gives {plain}")
    tokens = torch.from_numpy(ids)
    mask = torch.ones_like(tokens)
    times: dict[str, list[float]] = {"float": [], "golden": [], "int8": []}
    turns: dict[str, Callable[[], object]] = {
        "float": lambda: reference(input_ids=tokens, attention_mask=mask),
        "golden": lambda: fast.run_batch(model, batch),
        "int8": lambda: int8.run(None, {"ids": ids, "mask": np.ones_like(ids)}),
    }
    with torch.inference_mode():
        for turn in turns.values():
            turn()
        for _ in progress(range(repeats), name, "turns"):
            for side, turn in turns.items():
                start = time.perf_counter()
                turn()
                times[side].append((time.perf_counter() - start) * 1000)
    return Row(
        model=name,
        tokens=ids.shape[1],
        batch=ids.shape[0],
        float_ms=min(times["float"]),
        float_median_ms=median(times["float"]),
        golden_ms=min(times["golden"]),
        golden_median_ms=median(times["golden"]),
        int8_ms=min(times["int8"]),
        int8_median_ms=median(times["int8"]),
    )


def of_shape(
    name: str, cases: Sequence[tuple[int, int]], options: argparse.Namespace
) -> Iterator[Row]:
    """The cases (tokens, batch) of random models of one shape, with a third of the turns."""
    shape = SHAPES[name]
    config = BertConfig(
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ffn,
    )
    reference = BertForSequenceClassification(config).eval()
    model, int8 = random_model(shape, 0), dynamic_int8(reference, options.threads)
    repeats = max(1, options.repeats // 3)
    for tokens, batch in cases:
        ids = np.random.default_rng(0).integers(0, shape.vocabulary, (batch, tokens))
        yield measure(name, model, reference, int8, ids, repeats, compared=1)


def review_ids(folder: Path, count: int, tokens: int) -> np.ndarray:
    """The first `tokens` tokens of `count` test reviews that are as long, int64 [count, tokens]."""
    tokenizer = TextTokenizer(folder)
    kept: list[np.ndarray] = []
    for review in imdb("test"):
        ids = tokenizer.encode(review.text, limit=tokens).ids
        if len(ids) == tokens:
            kept.append(ids)
        if len(kept) == count:
            return np.array(kept, dtype=np.int64)
    raise TrainError(
        f"--batch {count} with --tokens {tokens}: only {len(kept)} test reviews are that long"
    )


def bench(options: argparse.Namespace) -> None:
    """The command."""
    torch.set_num_threads(options.threads)
    kind = read(options.model / CONFIG)["model_type"]
    if kind != "bert":
        raise TrainError(
            f"--model {options.model} is a {kind}: give a BERT with a class for a text"
        )
    folder, _ = calibrated(options)
    model, _ = store.load(folder)
    if not 3 <= options.tokens <= model.shape.tokens:
        raise TrainError(f"--tokens {options.tokens}: allowed 3..{model.shape.tokens}")
    reference = BertForSequenceClassification.from_pretrained(
        options.model, dtype=torch.float32, local_files_only=True
    ).eval()
    ids = review_ids(options.model, options.batch, options.tokens)
    int8 = dynamic_int8(reference, options.threads)
    threads = f"{options.threads} {'thread' if options.threads == 1 else 'threads'} each"
    versions = [f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "onnxruntime")]
    print(", ".join([threads, *versions]))
    print(HEADER)
    rows = []
    for batch in sorted({options.batch, 1}, reverse=True):
        name, some = options.model.name, ids[:batch]
        rows.append(measure(name, model, reference, int8, some, options.repeats))
        print(rows[-1].line())
    plan = {BASE_NAME: [(BASE_TOKENS, 1)]} if options.base else {}
    if options.shapes:
        plan = {name: list(product(LENGTHS, BATCHES)) for name in SHAPES}
    for name, cases in plan.items():
        for row in of_shape(name, cases, options):
            rows.append(row)
            print(row.line(), flush=True)
    if options.json:
        figures = [asdict(x) | {"speedup": x.speedup, "of_int8": x.of_int8} for x in rows]
        write_json(options.json, {"threads": options.threads, "rows": figures})
