"""Two small models that differ in all that a shape can: for clients that nobody here wrote."""

from golden.model import Shape

SHAPES = (
    Shape(
        layers=1, hidden=8, heads=2, head_size=4, ffn=12, labels=3,
        vocabulary=20, positions=20, types=2,
    ),
    Shape(
        layers=1, hidden=6, heads=1, head_size=5, ffn=9, labels=2,
        vocabulary=11, positions=20, types=0, norm="pre", embedding_norm=False, pooling="mean",
    ),
)  # fmt: skip
