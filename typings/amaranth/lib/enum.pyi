"""Amaranth ships no type hints; without these, members of its enumerations pass for int."""

import enum
from typing import Any

class Enum(enum.Enum):
    def __init_subclass__(cls, *, shape: Any = ..., view_class: Any = ...) -> None: ...
