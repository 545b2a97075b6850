"""From a quantized model to the command stream of one configuration."""

from cli.machine import BUILD

MODEL = BUILD / "bert-tiny-imdb"
"""Where the shipped checkpoint is quantized to."""
