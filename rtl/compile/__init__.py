"""From a quantized model to the command stream of one configuration."""

from pathlib import Path

MODEL = Path("build/bert-tiny-imdb")
"""Where the shipped checkpoint is quantized to."""
