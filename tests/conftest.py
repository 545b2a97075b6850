"""What holds for all tests."""

import gc
import json
from collections.abc import Iterator, Mapping
from typing import Any

from cli import files
from cli.keys import Keys, differences
from cli.options import Parser

import pytest

# A look for cyclic garbage goes over all that Amaranth, Numba and torch have made by then, which
# at Python's thresholds is a tenth of the time of a test that simulates or compiles.
gc.set_threshold(100_000, 50, 100)

_asked: dict[str, Mapping[str, Keys]] = {}
_wrong: list[str] = []
_parse = Parser.parse_known_args


def _parsed(self: Parser, args: Any = None, namespace: Any = None) -> Any:
    options, rest = _parse(self, args, namespace)
    if self.keys:
        _asked[str(options.json)] = self.keys
    return options, rest


def _written(path: str, text: str) -> None:
    if several := _asked.get(path):
        value = json.loads(text)
        _wrong.extend(min((differences(keys, value) for keys in several.values()), key=len))


pytest.MonkeyPatch().setattr(Parser, "parse_known_args", _parsed)
files.watching.append(_written)


@pytest.fixture(autouse=True)
def json_keys_are_documented() -> Iterator[None]:
    """Whatever a command writes to --json has the keys that its --help shows, and all of them."""
    _wrong.clear()
    yield
    assert _wrong == []
