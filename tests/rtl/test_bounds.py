"""Areas of tiles against the banks, and the logits' memory, as ranges of words."""

from typing import Any

import numpy as np
import pytest

from rtl.control.bounds import Bounds, offset_bits
from rtl.interface.config import Config
from tb.amaranth_ports import simulate

SMALL: dict[str, Any] = {"lanes": 4, "tokens": 8, "hidden": 8, "ffn": 20, "labels": 13}
CONFIG = Config(**SMALL)
Area = dict[str, int]


def inside(area: Area, config: Config) -> bool:
    bank = config.bank_words
    words = range(area["start"], area["start"] + area["words"])
    if area["logits"]:
        return not area["used"] or words[-1] < config.labels * 1  # one sequence's a row tile here
    first = 0 if area["spans"] else area["bank"] * bank
    last = 4 * bank if area["spans"] else first + bank
    return not area["used"] or (first <= words[0] and words[-1] < last)


def random_area(rng: np.random.Generator, config: Config) -> Area:
    """Around a bank's ends more often than not."""
    most = max(2 * config.lanes, config.tile_columns + 1)
    bank, words = int(rng.integers(4)), int(rng.integers(1, most))
    edge = int(rng.integers(-3, 12)) * config.bank_words // 2 - words + int(rng.integers(-2, 3))
    start = min(max(edge, 0), (1 << offset_bits(config)) - 1)
    used, spans, logits = (int(rng.random() < share) for share in (0.7, 0.3, 0.3))
    if logits:
        start = max(0, config.labels - words + int(rng.integers(-2, 3)))
        start = start if rng.random() < 0.8 else int(rng.integers(1 << offset_bits(config)))
    area = {"used": used, "start": start, "words": words, "bank": bank, "spans": spans}
    return area | {"logits": logits}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "columns"), [(0, None), (1, None), (2, None), (3, None), (4, 16), (5, 32), (6, 32)]
)
def test_areas(seed: int, columns: int | None) -> None:
    """Good tiles and tiles that do not count, and after some time one that is outside.

    A tile may have more columns than any tensor has channels.
    """
    config = Config(columns=columns, **SMALL | ({"ffn": 8} if columns else {}))
    rng = np.random.default_rng(seed)

    async def exercise(ports: Any) -> int:
        ctx, unit, found = ports.ctx, ports.component, 0
        wrong: list[int] = []
        for cycle in range(600):
            areas = [random_area(rng, config) for _ in range(2)]
            good = all(inside(area, config) for area in areas)
            en = int(rng.random() < 0.8)
            if not good and cycle < 300:
                en = 0
            for number, area in enumerate(areas):
                for name, value in area.items():
                    ctx.set(getattr(unit.areas[number], name), value)
            ctx.set(unit.en, en)
            if en and not good:
                wrong.append(cycle)
            found += en and good
            assert ctx.get(unit.outside) == int(bool(wrong) and cycle >= wrong[0] + 3), cycle
            await ctx.tick()
        assert wrong
        return found

    assert simulate(Bounds(config), exercise) > 50


@pytest.mark.parametrize("words", [1, 3, CONFIG.lanes])
@pytest.mark.parametrize("behind", [-1, 0, 1, 2, CONFIG.bank_words])
def test_logits_end_with_their_memory(words: int, behind: int) -> None:
    """The last word that there is, and the first that there is not."""
    start = CONFIG.logit_words - words + behind
    area = {"used": 1, "start": start, "words": words, "bank": 0, "spans": 0, "logits": 1}

    async def exercise(ports: Any) -> int:
        ctx, unit = ports.ctx, ports.component
        for name, value in area.items():
            ctx.set(getattr(unit.areas[1], name), value)
        ctx.set(unit.en, 1)
        for _ in range(4):
            await ctx.tick()
        return int(ctx.get(unit.outside))

    assert simulate(Bounds(CONFIG), exercise) == (behind > 0)
