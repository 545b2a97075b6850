"""Speed of the integer model beside Hugging Face's float model, on the same texts in one run.

Both run on one thread by default and take turns, so that what else the machine does hits both; the
time of each is its fastest turn, with the median beside it. Every text has exactly --tokens tokens
of a real review. The row of BERT-base's shape has random weights on both sides: only its speed
means something. Before anything is measured, the fast engine's logits are compared with those of
the plain functions, which are the specification; a difference is an error.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from cli.command import Different
from cli.files import write_json
from cli.options import Parser, add_json, add_model, add_quantized, positive
from cli.progress import progress

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from golden import encoder, fast, store
from golden.model import Model, Shape
from golden.random import random_model
from quant.calibrate import ensure
from quant.foreign.tokenizer import TextTokenizer
from quant.texts.corpora import imdb
from train.command import run_training
from train.failure import TrainError

EXAMPLES = """\
examples:
  python -m train.bench
  python -m train.bench --batch 8 --tokens 256 --no-base
  python -m train.bench --repeats 30 --json build/bench.json
"""
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
BASE = Shape(12, 768, 12, 64, 3072, 2, 30522, 512, 2)
BASE_TOKENS = 221  # the length at which the BERT-base figure of the literature was taken


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

    @property
    def speedup(self) -> float:
        """How many times as fast golden is as float."""
        return self.float_ms / self.golden_ms

    def line(self) -> str:
        rates = (self.batch * 1000 / ms for ms in (self.float_ms, self.golden_ms))
        return (
            f"{self.model:16}{self.tokens:7}{self.batch:7}"
            f"{self.float_ms:11.2f}{self.golden_ms:11.2f}"
            + "".join(f"{rate:11.1f}" for rate in rates)
            + f"{self.speedup:9.2f}x"
        )


HEADER = (
    f"{'model':16}{'tokens':>7}{'batch':>7}{'float ms':>11}{'golden ms':>11}"
    f"{'float /s':>11}{'golden /s':>11}{'speed':>10}"
)


def measure(
    name: str,
    model: Model,
    reference: BertForSequenceClassification,
    ids: np.ndarray,
    repeats: int,
) -> Row:
    """Both models on ids [batch, tokens], in turns.

    Raises Different where the fast engine differs from the plain functions.
    """
    batch = list(ids)
    for text, logits in zip(batch, fast.run_batch(model, batch)):
        plain = encoder.run(model, text)
        if (plain != logits).any():
            raise Different(f"{name}: golden.fast gives {logits} where golden gives {plain}")
    tokens = torch.from_numpy(ids)
    mask = torch.ones_like(tokens)
    times: dict[str, list[float]] = {"float": [], "golden": []}
    turns: dict[str, Callable[[], object]] = {
        "float": lambda: reference(input_ids=tokens, attention_mask=mask),
        "golden": lambda: fast.run_batch(model, batch),
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
    )


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


def single_thread(threads: int) -> None:
    """Start this process again with the thread count in its environment, where BLAS reads it."""
    settings = dict.fromkeys(THREAD_SETTINGS, str(threads))
    if any(os.environ.get(name) != value for name, value in settings.items()):
        os.environ.update(settings)
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "train.bench", *sys.argv[1:]])


def parser() -> Parser:
    result = Parser("train.bench", __doc__ or "", EXAMPLES)
    add_model(result)
    add_quantized(result)
    result.add_argument("--tokens", type=positive, default=128, help="of a text (%(default)s)")
    result.add_argument("--batch", type=positive, default=32, help="texts (%(default)s)")
    result.add_argument("--repeats", type=positive, default=15, help="turns (%(default)s)")
    result.add_argument("--threads", type=positive, default=1, help="(%(default)s)")
    result.add_argument(
        "--base",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=f"BERT-base's shape too, {BASE_TOKENS} tokens, batch 1",
    )
    add_json(result)
    return result


def bench(options: argparse.Namespace) -> None:
    """The command."""
    torch.set_num_threads(options.threads)
    folder = options.quantized or ensure(options.model)
    model, _ = store.load(folder)
    if not 3 <= options.tokens <= model.shape.tokens:
        raise TrainError(f"--tokens {options.tokens}: allowed 3..{model.shape.tokens}")
    reference = BertForSequenceClassification.from_pretrained(
        options.model, dtype=torch.float32, local_files_only=True
    ).eval()
    ids = review_ids(options.model, options.batch, options.tokens)
    print(f"{options.threads} thread, torch {torch.__version__}, NumPy {np.__version__}")
    print(HEADER)
    rows = []
    for batch in sorted({options.batch, 1}, reverse=True):
        rows.append(measure(options.model.name, model, reference, ids[:batch], options.repeats))
        print(rows[-1].line())
    if options.base:
        config = BertConfig()  # of BERT-base
        reference = BertForSequenceClassification(config).eval()
        ids = np.random.default_rng(0).integers(0, BASE.vocabulary, (1, BASE_TOKENS))
        repeats = max(1, options.repeats // 3)
        rows.append(measure("bert-base shape", random_model(BASE, 0), reference, ids, repeats))
        print(rows[-1].line())
    if options.json:
        figures = [asdict(row) | {"speedup": row.speedup} for row in rows]
        write_json(options.json, {"threads": options.threads, "rows": figures})


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(bench, parser(), argv)


if __name__ == "__main__":
    single_thread(parser().parse_args().threads)
    sys.exit(main())
