"""What the mutants of attention are asked beside its bench: to take the cycles of the model."""

from __future__ import annotations

from typing import Any

from rtl.interface.config import Config
from sim.cycles.attention import Attention
from tb import layers
from tb.attention import Bench, check
from tb.bench_attention import lengths_for
from tb.compare import Mismatch


async def cycles(ports: Any) -> None:
    """Layers of all shapes, batches whose tokens come with the stream and behind it.

    Raises
    ------
    Mismatch
        An inference takes another number of cycles.
    """
    bench, config = Bench(ports), Config(**ports.config)
    for number in range(28):
        wide = config.precise and number % 4 > 1
        made = layers.layer(config, number, first=number % 3 == 2, wide=wide)
        lengths = lengths_for(config, made, number + number // 8)
        after = (0, 0, 700, 1901)[number // 7]
        one = layers.inference(made, lengths, number)
        bench.queue(one, tokens=not after)
        seen = await bench.run(one, after=after)
        check(bench, one, seen, made.program.steps)
        assert one.activations is not None
        words = len(one.activations)
        wanted = Attention(made.program, lengths, words=words, after=after).predict().cycles
        if seen.busy != wanted:
            raise Mismatch(f"{one.name}: {seen.busy} cycles, and the model says {wanted}")
