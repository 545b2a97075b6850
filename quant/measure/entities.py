"""Entities in the tags of a text, and how many of them a model finds.

Tags are those of IOB2, IOBES and their like: O, or a prefix, a hyphen and a type, where B and S
begin an entity, I and E (L) go on with it, E (L), S and U end it. What does not follow these rules
is read as conlleval of CoNLL-2000 reads it, and seqeval by default: an I behind O or behind another
type begins an entity.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from quant.measure.metrics import by_name

OUTSIDE = "O"
"""The tag of a word that belongs to nothing (Ramshaw and Marcus, 1995)."""

_TAG = re.compile(r"O|[BIESLU]-.+")

Entity = tuple[str, int, int]  # type, first and last word


def tagged(names: Sequence[str]) -> bool:
    """These names of classes are such tags, of one entity type or more."""
    return all(map(_TAG.fullmatch, names)) and any(name != OUTSIDE for name in names)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a text, in their order."""
    found: list[Entity] = []
    first, before = 0, OUTSIDE
    for place, tag in enumerate([*tags, OUTSIDE]):
        if before != OUTSIDE and _ends(before, tag):
            found.append((before[2:], first, place - 1))
        if tag != OUTSIDE and (before == OUTSIDE or _ends(before, tag)):
            first = place
        before = tag
    return found


def _ends(before: str, tag: str) -> bool:
    """An entity ends between two tags, of which the first belongs to one."""
    return tag == OUTSIDE or before[0] in "ESLU" or tag[0] in "BSU" or before[2:] != tag[2:]


def scores(right: Sequence[Sequence[str]], said: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Of the texts' tags: micro precision, recall and F1 of the entities, and F1 of each type.

    An entity counts as found where its type and all its words are right; the measures are those of
    `metrics.by_name`.
    """
    a, b = (
        {(number, *one) for number, tags in enumerate(texts) for one in entities(tags)}
        for texts in (right, said)
    )
    kinds = sorted({kind for _, kind, *_ in a | b})
    several = [Counter(kind for _, kind, *_ in some) for some in (a & b, b, a)]
    counts = [np.array([counter[kind] for kind in kinds], np.int64) for counter in several]
    micro = by_name(*(count.sum(keepdims=True) for count in counts))
    shares = {name: values[0] for name, values in micro.items()}
    return {"entities": len(a), **shares, "f1_by_type": dict(zip(kinds, by_name(*counts)["f1"]))}
