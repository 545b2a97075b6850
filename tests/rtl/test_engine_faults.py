"""Deliberate faults in the parts of the engine, which the benches around it must see.

A piece of one part's source is replaced, the array or the accelerator is assembled from the faulty
part, and its bench plays small inferences on the Verilog with Icarus at four lanes.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.model import Model, Window
from rtl.compile.program import compile_model
from rtl.generate.verilog import LOWERING, PLAIN
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.bench import BenchError, run_bench
from sim.design import Design, described
from tb.case import Case, Inference, write_case
from tb.scenarios import SMALL, SMALL_LIMITS, family, inferences
from tests.damage import mutated, with_pieces
from tests.malformed import damaged

CONFIG = Config(lanes=4, dsp_macs=9, **SMALL_LIMITS)
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "precise": {"precise": True},
    "biased": {"bias_heads": 3},
    "windowed": {},
    "gated": {"precise": True, "gated": True},
    "turned": {"rotary_pairs": 6},
}
"""Choices of the hardware."""
Cases = dict[tuple[str, int], Path]
ARRAY, WHOLE = "matmul", "accelerator"
SEEN = (
    r"values differ; first|hangs|error code|words were written|was written|were taken|"
    r"of a result came|is asked for|gave the shape|`last` does not"
)


@dataclass(frozen=True)
class Fault:
    """`old`, which stands once in rtl/<part>.py, becomes `new`; `top`'s bench must see it.

    With `interval` the model stream gives a word in that many cycles, so that the array waits. With
    the option `precise` operands have 16 bits, with `biased` scores have a position bias, with
    `windowed` the layers have a window, with `gated` feed-forward networks have gates and wide
    operands, with `turned` q and k have rotary positions.
    """

    part: str
    kind: str
    old: str
    new: str
    top: str = WHOLE
    interval: int = 1
    option: str = ""

    @property
    def config(self) -> Config:
        return replace(CONFIG, **OPTIONS[self.option])


FAULTS = (
    Fault("matmul", "sum not begun anew", "Mux(first_p[group + 2], 0, sum_)", "sum_", ARRAY),
    Fault("matmul", "operands swapped", "a_words[i][group], b_words[j]",
          "a_words[j][group], b_words[i]", ARRAY),
    Fault("matmul", "copied early", 'register(m, last_p, "copy", reset=True)', "last_p"),
    Fault("matmul", "columns reversed", "shadow[i][j + 1] if j + 1 < places else",
          "shadow[i][j - 1] if j > 0 else", ARRAY),
    Fault("matmul", "LUT multiplier's sign", "(terms[6] - terms[7])", "(terms[6] + terms[7])",
          ARRAY),
    Fault("epilogue", "a column too many", "next_index < tag.columns",
          "index < tag.columns"),
    Fault("epilogue", "not transposed", "Mux(at[DRAINED].transposed, of_lane, of_column)",
          "of_column"),
    Fault("epilogue", "half a cycle late", "(at[SELECTED].weight_buffer,)",
          "(at[DRAINED].weight_buffer,)"),
    Fault("epilogue", "last score", "index + 1 == tag.columns", "index == n - 1"),
    Fault("epilogue", "bias late", "_bias[i].eq(chosen.bias)", "_bias[i].eq(chosen.bias >> 1)"),
    Fault("epilogue", "identity", "= 1 << 15, 15 ", "= 1 << 15, 14 "),
    Fault("epilogue", "residual not rounded", "Cat(Const(1, 1), branch)",
          "Cat(Const(0, 1), branch)"),
    Fault("epilogue", "table for all", "Mux(at[LOOKED_UP].table, table.o[i], plain)",
          "table.o[i]"),
    Fault("epilogue", "logit of another lane", "gather, sums[0], sums[i]",
          "gather, sums[0], sums[i ^ 1]"),
    Fault("payload", "no wait for a free half",
          "self.free.eq(~weights_full.bit_select(half, 1))", "self.free.eq(1)"),
    Fault("payload", "a tile too few", "columns_left <= (step << 1)",
          "columns_left <= 3 * step"),
    Fault("payload", "planes shifted", "self.parameter.plane.eq(count)",
          "self.parameter.plane.eq(count ^ 1)"),
    Fault("loader", "CRC not looked at", "damaged.eq(~crc.good)", "damaged.eq(0)"),
    Fault("payload", "gamma from the next",
          "held.word_select(written + n * p, 8) for p in range(2)",
          "held.word_select(written + 1 + n * p, 8) for p in range(2)"),
    Fault("payload", "shifts of the words before", "Mux(first, self.i.payload, shifts)", "shifts"),
    Fault("payload", "shifts not awaited", "writing & ~(first & self.shifts & ~self.i.valid)",
          "writing", interval=9),
    Fault("payload", "table order", "Cat(written, count)", "Cat(count, written)"),
    Fault("rules", "a rule too many", "is_[Opcode.EMBED] & (summed | ~waiting)",
          "is_[Opcode.EMBED] & (summed | waiting)"),
    Fault("bounds", "a bank too small", "last.eq(area.start + area.words - 1)",
          "last.eq(area.start + area.words + 255)"),
    Fault("rows", "every word ends a row", "self.i.ready & self.i.payload.last", "self.i.ready"),
    Fault("watchdog", "impatient", "bit_length() + 4", "bit_length() - 3"),
    Fault("sequencer", "no fence", "self.quiet | ~fence", "self.batch.ready | ~fence"),
    Fault("attend", "key tiles", "keys.eq(keys + attend.stride)",
          "keys.eq(keys + attend.head_size)"),
    Fault("attend", "a key tile too many", "end.eq(keys_left <= 2 * columns)",
          "end.eq(keys_left <= columns)"),
    Fault("walkers", "a row tile too few", "last_sequence, row + 2 == rows",
          "last_sequence, row + 3 == rows"),
    Fault("attend", "next head's V", "head_value.eq(head)", "head_value.eq(0)"),
    Fault("attend", "softmax not awaited", "channel == 0 if ways == 1 else first_tile", "0"),
    Fault("attend", "halves of the softmax", "half.eq(~half)", "half.eq(half)"),
    Fault("walkers", "embedding's words", "Mux(wide, 4 * n, 2 * n)", "Mux(wide, 4 * n, n)"),
    Fault("walkers", "wide embedding's words", "Mux(wide, 4 * n, 2 * n)", "2 * n"),
    Fault("issuer", "low bytes by a factor", "Mux(index[0], 1, ", "Mux(index[0], factor.token, "),
    Fault("issuer", "drain too short", "operands <= gap", "operands < gap"),
    Fault("issuer", "weights not awaited", "tile.weights & ~loaded",
          "tile.weights & ~loaded & (tile.length == 0)", interval=9),
    Fault("tile_queue", "norm not awaited", "self.progress.rows > tile.row",
          "self.progress.rows >= tile.row"),
    Fault("normalizer", "rows not counted anew", "complete.eq(0)", "complete.eq(complete)"),
    Fault("normalizer", "writes the residual", "unit.y_en & norm.flags.residual", "unit.y_en"),
    Fault("normalizer", "lanes of x8", "self.x8.data.eq(unit.y8)",
          "self.x8.data.eq(unit.y8.as_value().rotate_left(8))"),
    Fault("embedding", "lanes and kinds", "Cat(kind, lane, word[way_bits:])",
          "Cat(lane, kind, word[way_bits:])"),
    Fault("embedding", "halves of wide rows", "Cat(word[0], kind, lane, word[1 +",
          "Cat(kind, word[0], lane, word[1 +"),
    Fault("embedding", "offset", "rows.token_rows + rows.offset", "rows.token_rows"),
    Fault("embedding", "types", "Mux(token_type, rows.position_rows, 0)", "0"),
    Fault("embedding", "row's end", "self.i.payload.last != row_end", "self.i.payload.last"),
    Fault("embedding", "bound", "entry.id >= rows.token_rows", "entry.id > rows.token_rows"),
    Fault("accelerator", "mask", "mask.attend.eq(tokens.o.token.attend)", "mask.attend.eq(1)"),
    Fault("accelerator", "a token too many", "tokens.longest > engine.limit.tokens",
          "tokens.longest > engine.limit.tokens + 1"),
    Fault("accelerator", "a logit too few", "label_last.eq(left == 1)", "label_last.eq(left == 2)"),
    Fault("issuer", "reads no bank for B", "(b == Operand.BANK) & ~", "(b == Operand.P) & ~"),
    Fault("engine", "bank of B", "issuer.o.b_address[bank_bits:][:2]",
          "issuer.o.a_address[bank_bits:][:2]"),
    *(Fault(part, kind, old, new, option="precise") for part, kind, old, new in (
        ("matmul", "low sums count whole", "sum_ >> HALF_BITS", "sum_"),
        ("issuer", "the first pass drains", "end & ~self.o.low", "end"),
        ("issuer", "a pair counts twice", "go & ~tile.joined", "go"),
        ("walkers", "the second pass begins anew", "payload.joined.eq(second)",
         "payload.joined.eq(0)"),
        ("normalizer", "low halves of another lane", "y = unit.y[lane]", "y = unit.y[lane ^ 1]"),
        ("engine", "halves swapped", "Mux(low, value.low, value.high)",
         "Mux(low, value.high, value.low)"),
        ("epilogue", "one table for both halves", "of_low = self.table.address[8]",
         "of_low = Const(0)"),
        ("payload", "the low table left out", "Mux(self.wide, 2 * words - 1, words - 1)",
         "words - 1"),
    )),
    *(Fault(part, kind, old, new, option="biased") for part, kind, old, new in (
        ("attend", "a bias of keys too far", "apart.eq(apart + ways)",
         "apart.eq(apart + 2 * ways)"),
        ("attend", "a bias of the first queries", "begun - 1 - row", "begun - 1"),
        ("attend", "one bias for all heads", "head.eq(head + head_ends)", "head.eq(head)"),
        ("sequencer", "no bias", "self.biased.eq(op.flags.chained)", "self.biased.eq(0)"),
        ("position_bias", "one word of two", "place.word + ~first", "place.word"),
        ("payload", "a bias a row tile away", "count + 1 - self.row_tiles",
         "count + 2 - self.row_tiles"),
    )),
    *(Fault(part, kind, old, new, option="windowed") for part, kind, old, new in (
        ("attend", "the first keys stay", "new_low.eq(low + moves)", "new_low.eq(low)"),
        ("attend", "row tiles of keys left out", "span + ~moves", "span"),
        ("attend", "keys of another row tile", "low_keys + stride", "low_keys"),
        ("attend", "values of the first keys", "value + padded(at.low, n)", "value"),
        ("attend", "a distance of the first queries", "apart.eq(least - new_span",
         "apart.eq(least - least"),
        ("sequencer", "no window", "given, most = op.flags.bank", "given, most = op.flags.logits"),
        ("sequencer", "a side for both", "word_select(place, WINDOW_BITS)",
         "word_select(0, WINDOW_BITS)"),
        ("epilogue", "a window a key late", "at[APART].index", "at[APART + 1].index"),
        ("softmax", "every query sees", "Mux(valid, seen, 0)", "valid.replicate(self.lanes)"),
        ("running_max", "one lane's keys for all", "self.valid[n] if", "self.valid[0] if"),
    )),
    *(Fault(part, kind, old, new, option="gated") for part, kind, old, new in (
        ("epilogue", "a column of another gate", "address.eq(read.address)",
         "address.eq(before.address)"),
        ("epilogue", "every word a product", "Mux(at[LOOKED_UP].gated, products[i], chosen)",
         "products[i]"),
        ("epilogue", "the product not rounded", "rounded = (halves + 1) >> 1",
         "rounded = halves >> 1"),
        ("epilogue", "no low half of the gate", "Cat(word.low, (high - word.low[-1])[:8])",
         "Cat(Const(0, 8), high)"),
        ("epilogue", "a high half that runs over", "(value[7] & ~above)", "value[7]"),
        ("epilogue", "all products wide", "code = Mux(wide, both,", "code = Mux(1, both,"),
        ("engine", "the gate from the other banks", "here = (bank == number)",
         "here = (bank != number)"),
        ("walkers", "the residual's shift", "Mux(gated, linear.gate, shift)", "shift"),
        ("loader", "no gate is read", "self._gated.eq(self._flags.logits)", "self._gated.eq(0)"),
    )),
    *(Fault(part, kind, old, new, option="turned") for part, kind, old, new in (
        ("walkers", "positions of the first row tile", "Mux(tokens_left <= n, 0, place + 1)", "0"),
        ("walkers", "every column tile begins a head", "column_first.eq(self.begin)",
         "column_first.eq(1)"),
        ("walkers", "a pair too few", "(linear.head_size >> 1) - 1", "(linear.head_size >> 1) - 2"),
        ("epilogue", "the first table for all but the first head",
         "pair == tag.last_pair, tag.pair,", "pair == tag.last_pair, 0,"),
        ("epilogue", "row tiles go on", "Mux(coming.repeats, first, pair)", "pair"),
        ("epilogue", "cos alone", "Cat(at[ROTARY_READ].index[0], ", "Cat(Const(0, 1), "),
        ("epilogue", "not turned", "into_bank = late | (into_bank & ~before.turned)", "late = 0"),
        ("payload", "channels and row tiles swapped", "Cat(row, channel)", "Cat(channel, row)"),
        ("rotary", "the other way round", "Mux(turns, -by_sin, sins)", "Mux(turns, by_sin, -sins)"),
    )),
)  # fmt: skip


def design_with(fault: Fault) -> Design:
    """The design of `fault.top` with the faulty part."""
    pieces = [(fault.old, fault.new)] if fault.old else []
    unit = mutated(fault.part, *pieces, unit=fault.top, config=fault.config)
    # A sum that is never begun anew stays X where its register has no enable, as PLAIN leaves it.
    lowering = LOWERING if fault.top == ARRAY else PLAIN
    return described(unit, fault.top, fault.config, lowering=lowering)


def plain() -> list[Inference]:
    """Models in turn, and inferences that are refused between them."""
    # It takes fewer tokens than the hardware; all of its row tiles are computed.
    three = family("three-heads", replace(SMALL["three-heads"], positions=20))
    found = inferences(three, compile_model(three, CONFIG, whole_last_layer=True), [13, 6])
    words = np.full(21, 1 << 25, np.uint32)
    found.append(damaged(found[0], "a token too many", Error.LENGTH, tokens=words))
    # The embedding tables of the second have 8 bits, those of the others 16.
    for name, seed in (("bert-tiny", 2), ("no-pooler", 1), ("pre-norm-embedding-norm", 2)):
        model = family(name, SMALL[name], seed=seed)
        program = compile_model(model, CONFIG)
        # The shorter one has a single row tile: no other hides that a result is awaited.
        found += inferences(model, program, [9, 3], name=name)
    beyond = found[-1].tokens.copy()
    beyond[1] = beyond[1] >> 24 << 24 | SMALL[name].vocabulary
    broken = bytearray(found[-1].stream)
    broken[len(broken) // 2] ^= 16
    found.insert(1, damaged(found[-1], "id beyond the table", Error.TOKEN, tokens=beyond))
    found.insert(2, damaged(found[-1], "flipped", Error.CRC, stream=bytes(broken)))
    return found


def models_of(option: str) -> list[tuple[Model, list[int]]]:
    """Models that have what the option is for, each with the lengths of its inferences."""
    three = family("three-heads", SMALL["three-heads"], biased=option == "biased")
    if option == "biased":
        return [(three, [13, 6])]
    if option == "windowed":
        windows = (Window(5, 2), Window(None, 0))
        layers = [tuple(replace(one, window=w) for one in three.layers) for w in windows]
        return [(replace(three, layers=some), [23, 6]) for some in layers]
    if option == "turned":
        return [(family("bert-tiny", SMALL["bert-tiny"], rotary=True), [13, 6])]
    names = [("bert-tiny", 2), ("no-pooler", 1), ("pre-norm-embedding-norm", 2)]
    gated = option == "gated"
    found = []
    for name, seed in names[::2] if gated else names:
        shape = replace(SMALL[name], layers=3) if gated else SMALL[name]
        found.append((family(name, shape, seed=seed, precise=True, gated=gated), [9, 3]))
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """What the accelerator's bench plays, by option and interval."""
    folder, paths = tmp_path_factory.mktemp("cases"), {}
    for option, choices in OPTIONS.items():
        config, found = replace(CONFIG, **choices), [] if option else plain()
        for model, lengths in models_of(option) if option else ():
            program = compile_model(model, config, whole_last_layer=not config.precise)
            found += inferences(model, program, lengths)
        for interval in (1,) if option else (1, 9):
            path = paths[option, interval] = folder / f"{option}-{interval}.npz"
            write_case(path, Case(inferences=tuple(found), row_latency=3, interval=interval))
    return paths


def test_every_fault_has_its_place() -> None:
    """Those that `make test` does not play, too."""
    for fault in FAULTS:
        with_pieces(fault.part, (fault.old, fault.new))


def play(fault: Fault, variant: str, cases: Cases) -> None:
    """Run the bench: on the case, or of the array on the bench's own tiles."""
    tests, env = ["tiles", "extremes"], {}
    if fault.top == WHOLE:
        tests, env = ["case"], {"CASE": str(cases[fault.option, fault.interval])}
    run_bench(design_with(fault), "icarus", variant=variant, testcases=tests, env=env)


def in_tiers() -> list[object]:
    """The first fault is quick, the others are slow."""
    return [
        pytest.param(fault, marks=[pytest.mark.slow] * bool(at), id=f"{fault.part}: {fault.kind}")
        for at, fault in enumerate(FAULTS)
    ]


@pytest.mark.parametrize("fault", in_tiers())
def test_bench_sees(fault: Fault, cases: Cases) -> None:
    variant = "fault-" + re.sub(r"\W+", "-", f"{fault.part} {fault.kind}")
    with pytest.raises(BenchError, match=SEEN):
        play(fault, variant, cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("top", "option"), [(ARRAY, ""), *((WHOLE, option) for option in OPTIONS)], ids=str
)
def test_sound_parts_assembled_the_same_way(top: str, option: str, cases: Cases) -> None:
    """It is the fault that the benches see."""
    play(Fault("matmul", "none", "", "", top, option=option), "fault-none", cases)
