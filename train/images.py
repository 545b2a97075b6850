"""Train a small vision transformer on scikit-learn's digits and write it as a checkpoint.

A run that was stopped, by Ctrl-C or a kill, goes on when the same command is given again, and ends
with the same bytes.
"""

import argparse
from collections.abc import Sequence

from cli.options import Parser, positive

from train.command import add_common, run_training, share

EXAMPLES = """\
examples:
  python -m train.images
      the digits of scikit-learn, 8 x 8 pixels: 17 tokens, 2 layers, hidden size 64
  python -m train.images --patch 4 --layers 4 --epochs 60 --out build/trained/coarse
      fewer and larger patches, more layers
"""


def main(argv: Sequence[str] | None = None) -> int:
    def command(options: argparse.Namespace) -> None:
        from train.digits import train_digits  # torch takes seconds

        train_digits(options)

    return run_training(command, _parser(), argv)


def _parser() -> Parser:
    parser = Parser("train.images", __doc__ or "", EXAMPLES)
    model = parser.add_argument_group("model")
    for name, value, what in (
        ("patch", 2, "height and width of a patch in pixels"),
        ("hidden", 64, "hidden size"),
        ("layers", 2, "layers"),
        ("heads", 4, "heads"),
        ("ffn", 128, "feed-forward size"),
    ):
        model.add_argument(f"--{name}", type=positive, default=value, help=f"{what} (%(default)s)")
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument(
        "--epochs", type=positive, default=240, help="passes over the images (%(default)s)"
    )
    recipe.add_argument("--dropout", type=share, default=0.1, help="(%(default)s)")
    recipe.add_argument(
        "--mix",
        type=share,
        default=0.9,
        help="most that two images are mixed, where 1 were half of each (%(default)s)",
    )
    recipe.add_argument("--label-smoothing", type=share, default=0.05, help="(%(default)s)")
    add_common(parser, recipe, name="vit-digits", rate=2e-3, batch=64, average=0.995, patience=0)
    parser.set_defaults(weight_decay=0.05)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
