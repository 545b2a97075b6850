"""The meaning of a file's labels: names of the model's classes or indices from 0.

Names and indices can be the same words: with the classes "1" to "5" a 1 is the name of the first
one and the index of the second. One class, Labels, decides that once for a whole file.

    fits                                       read as
    names alone                                names
    indices alone                              indices
    both, and each label means one class       either
    both, with different classes               an error that names --labels-are
    neither                                    an error, unless no name holds a number: then a word
                                               is a name and a number an index

A number names a class whose name is that number (5, 5.0 and "05" all name "5") or, where every name
holds exactly one number, the class with that number ("5 stars"). Names as LABEL_0, which
transformers gives where nobody else did, say nothing. Surrounding space does not count, nor does
case, unless two names differ in it alone: a label in a third spelling is then refused.
"""

import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from cli.errors import UserError

from quant.texts.rows import TextError, place

NAMES, INDICES = "names", "indices"
READINGS = (NAMES, INDICES)
OPTION = "--labels-are"
LARGEST_INDEX = 4095

INDEX = re.compile(r"([0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_DIGITS = re.compile(r"[0-9]+")


class Labels:
    """The labels of one file, and the classes of the model that they mean.

    Parameters
    ----------
    path
        The file, for messages.
    names
        Of the model's classes; None: every label is an index.
    are
        NAMES, INDICES, or None to find out: `settle` does where `doubtful` says that it must.
    classes
        The names that the file itself gives to its integers, which it is then read with
        (quant.texts.parquet). Each must be a name of the model, and no two the same one; where the
        model has only names as LABEL_0, and as many, `are` becomes INDICES and a note says so.

    Raises
    ------
    TextError
        Names of the file that are none of the model's.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str] | None,
        are: str | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.path, self.names, self.are = path, names, are
        given = [name.strip() for name in names or ()]
        numbers: list[Decimal | None] = [None] * len(given)
        self._limit = LARGEST_INDEX + 1 if names is None else len(given)
        self._unnamed = given == [f"LABEL_{i}" for i in range(len(given))]
        if not self._unnamed:
            numbers = _numbers(given)
        self._twofold = any(n is not None and n != i for i, n in enumerate(numbers))
        self._exact = _places(given)
        self._folded = _places([name.casefold() for name in given])
        self._numbers = _places(numbers)
        if classes is not None and are != INDICES and given:
            self._follow(classes)

    @property
    def doubtful(self) -> bool:
        """Whether a number could name another class than the one whose index it is."""
        return self._twofold and self.are is None

    def index(self, value: object) -> int | None:
        """The class that a label means; None for none. Raises ValueError that goes on "is ..."."""
        if not word(value):
            return None
        name, index = self.by_name(value), self._by_index(value)
        if self.are != INDICES and name is not None:
            return name
        if self.are != NAMES and index is not None:
            return index
        raise UserError(self._refusal(value))

    def by_name(self, value: object) -> int | None:
        """The class with this name, if there is one."""
        found = word(value)
        for names, key in ((self._exact, found), (self._folded, found.casefold())):
            if key in names:
                return names[key]
        if isinstance(value, bool) or not self._numbers or not _NUMBER.fullmatch(found):
            return None
        return self._numbers.get(Decimal(found))

    def settle(self, found: Iterable[tuple[int, Sequence[object]]]) -> None:
        """Decide how a whole file is read, from its labels and the lines that they stand in.

        A note on stderr says how, where the other reading would give other classes. Raises
        TextError where both fit, or neither.
        """
        no_name = no_index = differs = ""  # where the first such label is
        for line, values in found:
            for value in filter(word, values):
                name, index = self.by_name(value), self._by_index(value)
                if name is None and index is None:
                    raise TextError(f"{place(self.path, line)}: a label {self._refusal(value)}")
                if name == index:
                    continue
                here = f"{place(self.path, line)}: the label {shown(value)}"
                if name is None:
                    no_name = no_name or here
                if index is None:
                    no_index = no_index or here
                if INDEX.fullmatch(word(value)):
                    differs = differs or here
        if no_name and no_index:
            raise TextError(
                f"{no_name} is no name of a class, and {no_index} no index below {self._limit}: "
                f"the labels of a file are all names ({listed(self.names or ())}) or all indices"
            )
        if not differs:
            return
        if not no_name and not no_index:
            raise TextError(
                f"{differs} is the name of one class and the index of another, as all labels of "
                f"the file may be: say which with {OPTION} {NAMES} or {OPTION} {INDICES} (the "
                f"classes are {listed(self.names or ())})"
            )
        self.are = INDICES if no_name else NAMES
        self._note(f"{no_name} is no name" if no_name else f"{no_index} is no index")

    def _by_index(self, value: object) -> int | None:
        match = None if isinstance(value, bool) else INDEX.fullmatch(word(value))
        if match is None or Decimal(match[1]) >= self._limit:
            return None
        return int(Decimal(match[1]))

    def _follow(self, classes: Sequence[str]) -> None:
        names = self.names or ()
        found = [self.by_name(name) for name in classes]
        none_same = all(index is None for index in found)
        if self._unnamed and none_same and self.are is None and len(classes) == len(names):
            self.are = INDICES
            self._note(f"the model's classes have no names, the file's are {listed(classes)}")
            return
        both = f"the file's classes are {listed(classes)}, the model's {listed(names)}"
        for name, index in zip(classes, found):
            if index is None:
                raise TextError(
                    f"{self.path}: the model has no class {name!r}: {both}: rename those of "
                    f"one, or give {OPTION} {INDICES} if both have the same order"
                )
            if found.count(index) > 1:
                raise TextError(
                    f"{self.path}: {name!r} and another class of the file are both the model's "
                    f"{names[index]!r}: {both}: rename one"
                )
        self.are = NAMES

    def _note(self, because: str) -> None:
        print(
            f"note: {self.path}: labels are read as {self.are}: {because}",
            file=sys.stderr,
            flush=True,
        )

    def _refusal(self, value: object) -> str:
        key = word(value).casefold()
        same = [name for name in self.names or () if name.strip().casefold() == key]
        if len(same) > 1 and self.are != INDICES:
            return f"is {shown(value)}, and {listed(same)} differ in case alone: write one of them"
        match = None if isinstance(value, bool) else INDEX.fullmatch(word(value))
        if match and self.are != NAMES and (self.are or not self._numbers):
            return f"is {match[1][:60]}: an index must be at least 0 below {self._limit}"
        names = f"one of {listed(self.names or ())}"
        index = "an index from 0"
        if self.names is None or self.are == INDICES:
            return f"is {shown(value)}, not {index}"
        return f"is {shown(value)}, not {names}" + ("" if self.are else f" or {index}")


Key = TypeVar("Key", bound=Hashable)


def _places(keys: Sequence[Key | None]) -> dict[Key, int]:
    """The place of each key that is there once."""
    counts = Counter(keys)
    return {key: i for i, key in enumerate(keys) if key is not None and counts[key] == 1}


def _numbers(names: Sequence[str]) -> list[Decimal | None]:
    """The number that each name is, or, where none is one and each holds one, that one."""
    numbers = [Decimal(name) if _NUMBER.fullmatch(name) else None for name in names]
    held = [_DIGITS.findall(name) for name in names]
    if any(number is not None for number in numbers) or any(len(one) != 1 for one in held):
        return numbers
    return [Decimal(one[0]) for one in held]


def word(value: object) -> str:
    return "" if value is None else str(value).strip()


def shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]


def listed(names: Sequence[str]) -> str:
    found = ", ".join(" ".join(name.split()) for name in names)
    return found if len(found) <= 300 else f"{found[:300]}..."
