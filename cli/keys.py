"""What a command writes to --json: a phrase for each key, which --help shows and the tests hold.

A path is keys with dots between. `[]` is each entry of a list, `{}` each name of a map whose names
are free; a name with ? is not in every file. Paths of one phrase have ", " between; one that begins
with a dot stands beside the one before. A value without documented keys inside is a number, a
string, true, false or a list of these; any value may be null. "[]" alone: the file holds a list.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Keys = Mapping[str, str]
_PART = re.compile(r"\[\]|\{\}|[^.\[\]{}]+")
COLUMN = 26
LEGEND = "of --json FILE ([]: an entry, {}: a name, ?: not in every file)"


def under(place: str, keys: Keys) -> dict[str, str]:
    """The keys of a record that stands at `place` of another, "phases[]."."""
    return {
        re.sub(r"(^|, )(?!\.)", rf"\g<1>{place}", said)
        if "." in said
        else place + said.replace(", ", ", ."): phrase
        for said, phrase in keys.items()
    }


def section(title: str, keys: Keys) -> str:
    """A line a phrase, below the title, as argparse shows options."""
    width = max(shutil.get_terminal_size().columns - 2, COLUMN + 20)
    lines = [f"{title}:"]
    for paths, phrase in keys.items():
        told = textwrap.wrap(phrase, width, initial_indent=" " * COLUMN,
                             subsequent_indent=" " * COLUMN, break_on_hyphens=False)  # fmt: skip
        if len(paths) < COLUMN - 3:
            told[0] = f"  {paths:{COLUMN - 2}}{told[0].lstrip()}"
        else:
            told[:0] = textwrap.wrap(paths, width, initial_indent="  ", subsequent_indent="  ")
        lines += told
    return "\n".join(lines)


def differences(keys: Keys, value: Any) -> list[str]:
    """Of a value as JSON has it: keys that are not documented, and documented ones not there."""
    root = _tree(keys)
    each = root.inside.get("[]")
    if each and not each.inside and isinstance(value, list):
        return [line for one in value for line in root.differences(one, "")]
    return list(root.differences(value, ""))


def documented(keys: Keys, path: str) -> bool:
    """Whether a path, in which names stand for {}, is one of the keys."""
    node: _Node | None = _tree(keys)
    for name in _PART.findall(path):
        node = node and node.inside.get(name, node.inside.get("{}"))
    return node is not None


def _tree(keys: Keys) -> _Node:
    root = _Node()
    for path in (path for said in keys for path in _paths(said)):
        root.add(_PART.findall(path))
    return root


def _paths(said: str) -> Iterator[str]:
    before = ""
    for path in said.split(", "):
        before = before.rpartition(".")[0] + path if path.startswith(".") else path
        yield before


@dataclass
class _Node:
    optional: bool = False
    inside: dict[str, _Node] = field(default_factory=dict)

    def add(self, names: list[str]) -> None:
        if names:
            node = self.inside.setdefault(names[0].removesuffix("?"), _Node())
            node.optional |= names[0].endswith("?")
            node.add(names[1:])

    def differences(self, value: Any, at: str) -> Iterator[str]:
        if isinstance(value, dict) and self.inside.keys() - {"[]"}:
            for name, node in self.inside.items():
                if name not in ("[]", "{}", *value) and not node.optional:
                    yield f"{at}{name} is documented, and not written"
            for name, one in value.items():
                if inner := self.inside.get(name, self.inside.get("{}")):
                    yield from inner.differences(one, f"{at}{name}.")
                else:
                    yield f"{at}{name} is not documented"
        elif isinstance(value, list) and (not self.inside or "[]" in self.inside):
            for one in value:
                yield from self.inside.get("[]", self).differences(one, f"{at[:-1]}[].")
        elif isinstance(value, dict) or (self.inside and value is not None):
            yield f"{at[:-1] or 'the file'} is not documented as {type(value).__name__}"
