"""How long the watchdog waits: longer than any good inference is silent."""

import pytest

from rtl.control.watchdog import patience
from rtl.interface.config import Config


@pytest.mark.parametrize("tokens", [1, 128, 8192])
@pytest.mark.parametrize("hidden", [1, 128, 1024])
def test_no_good_inference_is_silent_for_so_long(tokens: int, hidden: int) -> None:
    """A LayerNorm between two row tiles, with X16 taken half the time; a softmax before its p."""
    config = Config(lanes=32, tokens=tokens, hidden=hidden, ffn=1)
    assert patience(config) > 2 * (4 * hidden + 3 * config.lanes + 100)
    assert patience(config) > 2 * (tokens + config.lanes + 100)
    assert patience(config) & patience(config) - 1 == 0
