"""Command streams that are changed piece by piece; the CRCs of the result are right."""

from __future__ import annotations

from dataclasses import dataclass

from cli.errors import UserError

from rtl.compile.program import Program
from rtl.interface.command import sealed
from rtl.interface.isa import FIELDS, Opcode


@dataclass
class Piece:
    """A descriptor and its payload; its fields are read and written by name.

    Attributes
    ----------
    name
        What the program calls the step.
    body
        The descriptor without CRC and padding, 28 bytes.
    payload
        Whole words.
    """

    name: str
    body: bytearray
    payload: bytearray

    def _place(self, name: str) -> slice:
        opcode, at = Opcode(self.body[0]), 2
        for field in FIELDS[opcode]:
            if field.name == name:
                return slice(at, at + field.bytes)
            at += field.bytes
        raise UserError(f"{opcode.name} has no field {name}")

    def __getitem__(self, name: str) -> int:
        return int.from_bytes(self.body[self._place(name)], "little")

    def __setitem__(self, name: str, value: int) -> None:
        """Write a field; the value is cut to its bytes."""
        place = self._place(name)
        size = place.stop - place.start
        self.body[place] = (value % (1 << 8 * size)).to_bytes(size, "little")


class Edit(list[Piece]):
    """The pieces of a program, in order: `bytes` gives the stream."""

    def __init__(self, program: Program) -> None:
        self.width = program.config.stream_width
        super().__init__(
            Piece(
                step.name,
                bytearray(step.body(self.width)),
                bytearray(step.payload + bytes(-len(step.payload) % self.width)),
            )
            for step in program.steps
        )

    def named(self, name: str) -> Piece:
        """The first piece of that name."""
        return next(piece for piece in self if piece.name == name)

    def __bytes__(self) -> bytes:
        return sealed(self.width, ((piece.body, piece.payload) for piece in self))
