"""Speed of the integer model beside Hugging Face's float model and onnxruntime's dynamic INT8.

All run the same texts in one run, on one thread by default, and take turns, so that what else the
machine does hits all; the time of each is its fastest turn, with the median beside it. The INT8
model is the same checkpoint through torch.onnx and onnxruntime.quantization.quantize_dynamic, with
their defaults. Every text has exactly --tokens tokens of a real review. Rows of a shape have random
weights on all sides: only their speed means something. Before anything is measured, the fast
engine's logits are compared with those of the plain functions, which are the specification; a
difference is an error.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from cli.options import Parser, add_json, add_model, add_quantized, positive

from train.choices import BASE_TOKENS, BATCHES, LENGTHS, SHAPES
from train.command import run_training

THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EXAMPLES = """\
examples:
  python -m train.bench
  python -m train.bench --batch 8 --tokens 256 --no-base
  python -m train.bench --repeats 30 --json build/bench.json
"""


def single_thread(threads: int) -> None:
    """Start this process again with the thread count in its environment, where BLAS reads it."""
    settings = dict.fromkeys(THREAD_SETTINGS, str(threads))
    if any(os.environ.get(name) != value for name, value in settings.items()):
        os.environ.update(settings)
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(argv: Sequence[str] | None = None) -> int:
    def command(options: argparse.Namespace) -> None:
        from train.speed import bench  # torch takes seconds

        bench(options)

    return run_training(command, parser(), argv)


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
    result.add_argument(
        "--shapes",
        action="store_true",
        help=f"the shapes of {' and '.join(SHAPES)} at {' and '.join(map(str, LENGTHS))} tokens, "
        f"batches of {' and '.join(map(str, BATCHES))} (ten minutes)",
    )
    add_json(result)
    return result


if __name__ == "__main__":
    single_thread(parser().parse_args().threads)
    sys.exit(main())
