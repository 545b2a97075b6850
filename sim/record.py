"""A record of the cocotb bench of a unit, for benches that need no Python."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from golden.model import Model
from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import Design
from tb import cut, vectors
from tb.cut import Sequence as Tokens
from tb.record import Record


def recorded(
    design: Design,
    config: Config,
    reviews: Sequence[tuple[Model, Tokens]] = (),
    limit: int = vectors.LIMIT,
) -> Record:
    """The bench of a unit without streams on Icarus, with vectors of the reviews; as `run_bench`.

    limit: values or rows that are cut out of each tensor of a review.
    """
    with tempfile.TemporaryDirectory(prefix="bert2rtl-record-") as folder:
        file = Path(folder) / "pins"
        env = {"RECORD": str(file)}
        if reviews and design.name in cut.UNITS:
            out, texts = Path(folder) / "vectors", [review for _, review in reviews]
            with suppress(vectors.NoVectors):
                vectors.write(out, reviews[0][0], texts, [design.name], limit, {})
                env["VECTORS"] = str(out)
        passed = run_bench(design, "icarus", config, env=env)
        played = dict.fromkeys(test.name.partition("/")[0] for test in passed)
        return Record(file.read_text(encoding="ascii"), list(played))
