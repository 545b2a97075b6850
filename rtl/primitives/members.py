"""Members of units and bundles: each says what it is where it is declared."""

from types import EllipsisType
from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import Flow, Member, Signature

NOTHING = Signature({})


class _Way:
    """Makes members of one direction, as `wiring.In` and `wiring.Out` do."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def __call__(
        self, shape: Any, doc: str | EllipsisType = "", *, there: Any = True, init: Any = None
    ) -> Member:
        """A member of a shape or a signature.

        doc
            What it is, beyond its name and its signature's docstring: a comment of the Verilog.
            `...` is the text of the member before, which is about both.
        there
            False: the configuration has none. It is of no bits then, and no port of the Verilog, so
            that a unit has the same members in every configuration.
        """
        absent = NOTHING if isinstance(shape, Signature) else 0
        member = Member(self.flow, shape if there else absent, init=init)
        member.doc = doc
        return member


In, Out = _Way(wiring.In), _Way(wiring.Out)


def doc_of(member: Member) -> str | EllipsisType:
    """The text of a member's declaration."""
    return getattr(member, "doc", "")


def copied(to: Any, of: Any, *names: str) -> list[Any]:
    """The assignments of members of one bundle to those of another: of these names, or of all."""
    return [getattr(to, name).eq(getattr(of, name)) for name in names or of.signature.members]


class Unit(wiring.Component):
    """A component of these members."""

    def __init__(self, **members: Member) -> None:
        super().__init__(members, src_loc_at=1)


class Bundle(wiring.Signature):
    """A signature of these members."""

    def __init__(self, **members: Member) -> None:
        super().__init__(members)
