"""The work of `train.bench`: accuracy and speed of the same checkpoint in four ways."""

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cli.errors import UserError
from cli.files import write_json
from cli.options import MODEL
from cli.progress import progress

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import quantize_dynamic
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification

from golden import fast, store
from golden.model import Model, Shape
from golden.random import random_model
from quant.calibrate import ensure
from quant.foreign.checkpoint import load
from quant.model.spec import CLASSIFICATION, EMBEDDING, TEXTS
from quant.texts.corpora import imdb, rotten_tomatoes
from quant.which import local
from train.families import load_model, minilm

Array = NDArray[Any]
Row = dict[str, Any]
Side = Callable[[Array], Array]
"""Outputs [texts, C] of ids [texts, tokens]."""

BASE = Shape(12, 768, 12, 64, 3072, 2, 30522, 512, 2)
BASE_TOKENS = 221  # the length at which the BERT-base figure of the literature was taken


class _Outputs(torch.nn.Module):
    """Logits, or the mean or first of the last layer's tokens, of ids [texts, tokens]."""

    def __init__(self, model: Any, pooling: str | None) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling

    def forward(self, ids: torch.Tensor) -> Any:
        found = self.model(input_ids=ids, attention_mask=torch.ones_like(ids))
        if self.pooling is None:
            return found.logits
        states = found.last_hidden_state
        return states.mean(1) if self.pooling == "mean" else states[:, 0]


def sides(reference: Any, pooling: str | None, model: Model) -> dict[str, Side]:
    """Float, INT8 in both ways and golden, as functions of ids."""
    reference.set_attn_implementation("eager")
    wrapped = _Outputs(reference, pooling).eval()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1

    def session(graph: str, per_channel: bool) -> Side:
        quantize_dynamic(graph, f"{graph}.int8", per_channel=per_channel)
        made = onnxruntime.InferenceSession(f"{graph}.int8", settings, ["CPUExecutionProvider"])
        return lambda ids: np.asarray(made.run(None, {"ids": ids})[0])

    def float_model(ids: Array) -> Array:
        with torch.inference_mode():
            return np.asarray(wrapped(torch.from_numpy(ids)))

    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = str(Path(folder, "float.onnx"))
        torch.onnx.export(
            wrapped,
            (torch.ones((2, 8), dtype=torch.long),),
            graph,
            input_names=["ids"],
            dynamic_axes={"ids": {0: "texts", 1: "tokens"}},
            opset_version=17,
            dynamo=False,
        )
        int8 = {"INT8": session(graph, False), "INT8 per channel": session(graph, True)}
    reference.set_attn_implementation("sdpa")
    golden = {"golden": lambda ids: fast.run_batch(model, ids)}
    return {"float": float_model, **int8, **golden}


def accuracy(
    name: str, these: dict[str, Side], texts: Sequence[Array], labels: Sequence[int] | None
) -> list[Row]:
    """A row for each side: percent right and as float, or of vectors cosine and neighbour."""
    found: dict[str, list[Array]] = {side: [] for side in these}
    for ids in progress(texts, f"{name}, accuracy"):
        for side, outputs in these.items():
            found[side].append(outputs(ids[None])[0])
    rows = []
    for side, given in found.items():
        row: Row = {"model": name, "side": side, "texts": len(texts)}
        x, exact = (np.array(x, np.float64) for x in (given, found["float"]))
        if labels is not None:
            shares = (x.argmax(1) == labels).mean(), (x.argmax(1) == exact.argmax(1)).mean()
            row["accuracy_percent"], row["agreement_percent"] = (100 * float(v) for v in shares)
        else:
            x, exact = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, exact))
            row["mean_cosine"] = float((x * exact).sum(1).mean())
            near, wanted = ((v @ v.T - 2 * np.eye(len(v))).argmax(1) for v in (x, exact))
            row["same_neighbour_percent"] = 100 * float((near == wanted).mean())
        rows.append(row)
    return rows


def speed(name: str, these: dict[str, Side], ids: Array, repeats: int) -> Row:
    """Milliseconds of the fastest turn of each side on ids [texts, tokens]."""
    times: dict[str, list[float]] = {side: [] for side in ("float", "INT8", "golden")}
    for _ in progress(range(repeats + 1), f"{name}, speed", "turns"):
        for side, spent in times.items():
            start = time.perf_counter()
            these[side](ids)
            spent.append((time.perf_counter() - start) * 1000)
    best = {side: min(spent[1:]) for side, spent in times.items()}  # the first turn warms up
    row: Row = {"model": name, "tokens": ids.shape[1], "batch": ids.shape[0]}
    row |= {f"{side.lower()}_ms": value for side, value in best.items()}
    faster = {side: best[side] / best["golden"] for side in ("float", "INT8")}
    return row | {f"speed_of_{side.lower()}": value for side, value in faster.items()}


def _line(row: Row) -> str:
    cells = (f"{x:.4g}" if isinstance(x, float) else str(x) for x in row.values())
    return ", ".join(map(" ".join, zip(row, cells)))


def run(options: argparse.Namespace) -> None:
    """The command."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # of the quantizer
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}")
    accuracies, speeds = list[Row](), list[Row]()
    for folder in [MODEL, minilm()] if options.model is None else [local(options.model)]:
        spec = load(folder).spec
        spec.require((CLASSIFICATION, EMBEDDING), folder)
        if spec.inputs != TEXTS or spec.pooling not in ("mean", "first"):
            raise UserError(f"--model {folder}: give an encoder of texts that is no decoder")
        classes = spec.task == CLASSIFICATION
        if classes and options.tokens > spec.max_tokens:
            raise UserError(f"--tokens {options.tokens}: {folder} takes {spec.max_tokens} at most")
        reviews = imdb("test") if classes else rotten_tomatoes("test")
        reviews = reviews[: options.texts]
        encoded = AutoTokenizer.from_pretrained(folder, local_files_only=True)(
            [review.text for review in reviews], truncation=True, max_length=spec.max_tokens
        )
        ids = [np.array(text, np.int64) for text in encoded["input_ids"]]
        if classes:
            reference = load_model(folder, CLASSIFICATION, spec.labels)
        else:
            reference = AutoModel.from_pretrained(folder, dtype="float32", local_files_only=True)
        model, _ = store.load(ensure(folder, tasks=(CLASSIFICATION, EMBEDDING)))
        these = sides(reference, None if classes else spec.pooling, model)
        labels = [review.label or 0 for review in reviews] if classes else None
        name = folder.name if folder != minilm() else "all-MiniLM-L6-v2"
        rows = accuracy(name, these, ids, labels)
        print(*map(_line, rows), sep="\n")
        accuracies += rows
        for count in (options.batch, 1) if classes else ():
            some = np.random.default_rng(0).integers(spec.vocabulary, size=(count, options.tokens))
            speeds.append(speed(name, these, some, options.repeats))
    if options.model is None:
        config = BertConfig(num_hidden_layers=BASE.layers, hidden_size=BASE.hidden)
        model = random_model(BASE, 0)
        these = sides(BertForSequenceClassification(config), None, model)
        some = np.random.default_rng(0).integers(0, BASE.vocabulary, (1, BASE_TOKENS))
        speeds.append(speed("bert-base shape", these, some, options.repeats // 3 + 1))
    print(*map(_line, speeds) if speeds else ["speed: of a classifier alone"], sep="\n")
    if options.json:
        write_json(options.json, {"accuracy": accuracies, "speed": speeds})
