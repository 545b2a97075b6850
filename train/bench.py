"""The integer model beside Hugging Face's float model and onnxruntime's dynamic INT8.

INT8 is the same checkpoint by torch.onnx and onnxruntime.quantization.quantize_dynamic, by its
defaults and with weights per channel. Accuracy: each runs the same texts, one at a time, and is
compared with float: of a classifier the classes, of an encoder the vectors' cosines and nearest
neighbours. Speed: they take turns on --tokens random tokens, on one thread; a time is the fastest
turn.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from cli.options import Parser, add_json, positive

from train.command import run_training

EXAMPLES = """\
examples:
  python -m train.bench
      the shipped classifier, all-MiniLM-L6-v2, and the speed of BERT-base's shape
  python -m train.bench --model hub:owner/name --texts 200
      a BERT of yours: with a class for a text, or a sentence encoder
"""


def main(argv: Sequence[str] | None = None) -> int:
    result = Parser("train.bench", __doc__ or "", EXAMPLES)
    result.add_argument(
        "--model", type=Path, metavar="DIR", help="a checkpoint, or hub:owner/name (see above)"
    )
    result.add_argument("--texts", type=positive, default=1000, help="for accuracy (%(default)s)")
    result.add_argument("--tokens", type=positive, default=128, help="of a text (%(default)s)")
    result.add_argument("--batch", type=positive, default=32, help="texts (%(default)s)")
    result.add_argument("--repeats", type=positive, default=15, help="turns (%(default)s)")
    add_json(result)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy loads its BLAS
    return run_training(result, "train.comparison.run", argv)


if __name__ == "__main__":
    raise SystemExit(main())
