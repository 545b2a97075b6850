"""Programs of all that the attention unit can run, with every write that golden says they make.

All are small, whatever the configuration takes; tensors lie all over the banks, and at their ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from golden.attention import attention, split_heads
from golden.linear import gated, linear, linear16
from golden.matmul import matmul
from golden.model import (
    ROTARY_ONE,
    Attention,
    FeedForward,
    Linear,
    Model,
    Rotary,
    Shape,
    Window,
)
from golden.random import positioned, random_model, turned
from golden.requantize import requantize
from golden.rotary import SHIFT as ROTARY_SHIFT
from rtl.compile.program import Program, Step, compile_attention, compile_model
from rtl.interface.command import NO_FLAGS, Flag, Opcode, bank_address, window_field
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from tb.case import Inference
from tb.expected import Writes, expected_writes
from tb.packing import operand_of, operand_words, token_words
from tb.scenarios import offsets, random_operand

REST: dict[str, Any] = {
    "labels": 2,
    "vocabulary": 20,
    "positions": 1000,
    "types": 1,
    "pooling": "mean",
    "layers": 1,
}
SHAPES = (
    Shape(hidden=10, heads=2, head_size=5, ffn=16, **REST),
    Shape(hidden=8, heads=1, head_size=8, ffn=13, **REST),
    Shape(hidden=4, heads=16, head_size=1, ffn=3, **REST),
    Shape(hidden=1, heads=1, head_size=10, ffn=1, **REST),
    Shape(hidden=9, heads=3, head_size=3, ffn=16, **REST),
    Shape(hidden=2, heads=1, head_size=2, ffn=2, **REST),
    Shape(hidden=3, heads=1, head_size=9, ffn=5, **REST),
)
#: Of q, k, v and context, with every pair of q and k; only what is not V may lie beyond bank 0
#: when it begins there.
BANKS = (
    (0, 1, 2, 3),
    (3, 0, 1, 2),
    (1, 2, 3, 0),
    (2, 3, 0, 1),
    (3, 1, 0, 2),
    (2, 0, 3, 1),
    (1, 3, 2, 0),
    (0, 2, 1, 3),
    (2, 1, 3, 0),
    (3, 2, 0, 1),
    (1, 0, 2, 3),
    (0, 3, 1, 2),
)
WINDOWS: tuple[Window | None, ...] = (
    Window(None, 0),
    Window(5, 2),
    Window(0, 0),
    None,
    Window(0, None),
    Window(1, 9),
    Window(8, 4),
)
"""The windows that ATTENDs take in turn."""
ONE, TWO, HIDDEN, AGAIN, AFTER = "one", "two", "hidden", "again", "after"
PRODUCT = "product"


@dataclass(frozen=True)
class Layer:
    """A program and what golden needs to say what it computes.

    Attributes
    ----------
    one, two
        Parameters of both ATTENDs, which share q, k and v.
    hidden, after
        A layer on the activations, and one on the second context, both with a table.
    gated
        With gates: `hidden` as the gate of a layer on the activations.
    first
        All but q, k, v and the first ATTEND compute the first row tile of each sequence.
    wide
        The activations have 16 bits.
    bias, bias_two
        The position bias of the first ATTEND, and that of the second; None without one.
    window, window_two
        Their windows, the same.
    rotary
        The table by which q and k are turned; None without one.
    """

    program: Program
    heads: int
    one: Attention
    two: Attention
    hidden: Linear
    after: Linear
    first: bool
    wide: bool
    bias: np.ndarray | None = None
    bias_two: np.ndarray | None = None
    window: Window | None = None
    window_two: Window | None = None
    gated: FeedForward | None = None
    rotary: Rotary | None = None

    @property
    def width(self) -> int:
        """Channels of the activations."""
        return int(self.hidden.weight.shape[1])


def _as_it_is(layer: Linear, rng: np.random.Generator) -> Linear:
    return layer


def _rounded(layer: Linear, rng: np.random.Generator) -> Linear:
    """No weights, any multipliers, and biases whose rounding hangs on their last bit and that of m.

    round(bias * m * 2^-s) changes with either; that of m is 0 in every second channel.
    """
    size = len(layer.bias)
    m = rng.integers(1 << 15, 1 << 16, size) & ~1 | np.arange(size) & 1
    s = np.array([int(x) for x in rng.choice([26, 27, 28], size)])
    k = rng.integers(64, 126, (64, size)) * rng.choice([-1, 1], (64, size))
    half = (2 * k + 1) << s - 1  # where k becomes k + 1
    # The next bias that rounds up, or down: on the side that m's last bit leads away from.
    up = (m & 1 == 1) == (k > 0)
    acc = np.where(up, -(-half // m), (half - 1) // m)
    tells = acc & 1 == up  # so does the bias' own

    def rounds(acc: np.ndarray, m: np.ndarray) -> np.ndarray:
        found: np.ndarray = (acc * m + (1 << s - 1)) >> s
        return found

    bias = acc[tells.argmax(axis=0), np.arange(size)]
    assert (rounds(bias, m) != rounds(bias, m ^ 1)).all()
    assert (rounds(bias, m) != rounds(bias ^ 1, m)).all()
    return dataclasses.replace(
        layer,
        weight=np.zeros_like(layer.weight),
        bias=bias.astype(np.int32),
        m=m.astype(np.int32),
        s=s.astype(np.int32),
    )


def _shifted(layer: Linear, rng: np.random.Generator) -> Linear:
    """No weights, any shifts of 9 to 39, and biases that make 20 to 100 of them."""
    size = len(layer.bias)
    s = rng.integers(9, 40, size)
    wanted = rng.integers(20, 100, size) * rng.choice([-1, 1], size)
    return dataclasses.replace(
        layer,
        weight=np.zeros_like(layer.weight),
        bias=((wanted << s) // layer.m).astype(np.int32),
        s=s.astype(np.int32),
    )


def _halfway(model: Model, number: int) -> Model:
    """Q without weights, turned by angles that hang on every bit of both products.

    In each row one channel of a pair is halfway between two codes, or one below it.
    """
    rng = np.random.default_rng(number)
    first, attention = model.layers[0], model.layers[0].attention
    assert model.rotary is not None
    assert first.rotary is not None
    size, unit = model.shape.head_size, np.ones_like(attention.q.bias)
    u = (2 * rng.integers(1 << 11, 1 << 12, size) + 1) * rng.choice([-1, 1], size)
    q = dataclasses.replace(
        attention.q,
        weight=np.zeros_like(attention.q.weight),
        bias=np.tile(u, model.shape.heads).astype(np.int32),
        m=unit << 15,
        s=15 * unit,
    )
    cos = np.arange(-ROTARY_ONE, ROTARY_ONE + 1)
    rows, code = len(model.rotary[0].cos), 1 << ROTARY_SHIFT
    angles = np.empty((2, rows, size // 2), np.int16)
    for pair, (x, y) in enumerate(u.reshape(-1, 2).tolist()):
        kinds = rng.integers(4, size=rows)
        for kind, (a, b) in enumerate(((x, -y), (y, x), (x, -y), (y, x))):
            wanted = code // 2 - kind // 2
            sin = (wanted - a * cos) * pow(b, -1, code) % code
            sin = np.where(sin < code // 2, sin, sin - code)
            fits = (abs(sin) <= ROTARY_ONE) & (abs(a * cos + b * sin) < 127 * code)
            found = np.stack((cos, sin))[:, fits]
            here = kinds == kind
            angles[:, here, pair] = found[:, rng.integers(found.shape[1], size=here.sum())]
    tables = list(model.rotary)
    tables[first.rotary] = Rotary(*angles)
    attention = dataclasses.replace(attention, q=q)
    layers = (dataclasses.replace(first, attention=attention), *model.layers[1:])
    return dataclasses.replace(model, layers=layers, rotary=tuple(tables))


def layer(
    config: Config,
    number: int,
    *,
    banks: Sequence[int] = BANKS[0],
    first: bool = False,
    short: bool = False,
    wide: bool = False,
    values: dict[str, dict[str, int]] | None = None,
) -> Layer:
    """A table and a layer on the activations, q, k, v, two ATTENDs, another table and a layer.

    With a position bias where the hardware takes one of so many heads; in every second program the
    second ATTEND is without. With `WINDOWS` where the hardware takes some, and where it takes gates
    with a third layer, whose gate is the first. With rotary positions where it takes two tables of
    so many pairs; several heads have even sizes then.

    short
        Only q, k, v and the second ATTEND.
    wide
        The activations have 16 bits; on hardware with `precise` alone.
    values
        Other fields of steps, by the step's name.
    """
    rng = np.random.default_rng(number)
    shape = SHAPES[number % len(SHAPES)]
    if config.rotary_pairs and shape.heads > 1 and shape.head_size > 1:
        shape = dataclasses.replace(shape, head_size=shape.head_size + 1)
    model = random_model(shape, number)
    if model.shape.heads <= config.bias_heads:
        model = positioned(np.random.default_rng(number), model)
    if model.shape.head_size <= config.rotary_pairs and model.shape.head_size % 2 == 0:
        model = turned(np.random.default_rng(number), model)
        if number % 2 == 0:
            model = _halfway(model, number)
    of_one = NO_FLAGS if model.position_bias is None else Flag.BIAS
    of_two = NO_FLAGS if number % 2 else of_one
    windows: list[Window | None] = [None, None]
    if config.windows:
        windows = [WINDOWS[place % len(WINDOWS)] for place in (number, number + 1 + number // 2)]
        of_one, of_two = (
            of | (NO_FLAGS if window is None else Flag.WINDOW)
            for of, window in zip((of_one, of_two), windows)
        )
    source = model.layers[0]
    of_v = (_as_it_is, _shifted, _rounded, _rounded)[number % 4](source.attention.v, rng)
    source = dataclasses.replace(source, attention=dataclasses.replace(source.attention, v=of_v))
    q, k, v, context = map(bank_address, banks)

    def multipliers() -> dict[str, Any]:
        return {name: int(rng.integers(1 << 15, 1 << 16)) for name in ("score_m", "context_m")}

    one = dataclasses.replace(source.attention, **multipliers())
    shifts = rng.choice([1, 16, 31, 32, 47], 2)
    far: dict[str, Any] = {"context_s": int(shifts[1])}
    if number % 3 == 0:
        far = {"score_s": int(shifts[0])}
    elif number % 6 == 1:  # row scales with shifts of 32 and more of which something is left
        far = {"score_s": 47, "context_s": 21}
    two = dataclasses.replace(source.attention, **multipliers(), **far)
    up = dataclasses.replace(source.ffn.up, table=model.head[0].table)
    hidden = (_as_it_is, _rounded, _shifted, _rounded)[number % 4](up, rng)
    table = rng.integers(-128, 128, 256, dtype=np.int8)
    after = dataclasses.replace(model.head[0], table=table)
    ffn, of_hidden = dataclasses.replace(source.ffn, up=hidden), "layer.0.ffn.hidden"
    if config.gated:
        ffn, of_hidden = _with_gate(source.ffn, hidden, number), "layer.0.ffn.gate"
    changed = dataclasses.replace(
        model,
        layers=(dataclasses.replace(source, attention=one, ffn=ffn),),
        head=(after, model.head[1]),
    )
    whole = {step.name: step for step in compile_model(changed, config).steps}
    alone = compile_attention(changed, config, 0)
    flags = Flag.FIRST_TILE if first else NO_FLAGS
    width = model.shape.inner
    attend = whole["layer.0"].values | {"query": q, "key": k, "value": v, "context": context}
    other = {name: getattr(two, name) for name in ("score_m", "score_s", "context_m", "context_s")}
    narrow = whole["head.0"].values | {
        "length": min(width, whole["head.0"].values["length"]),
        "source": context,
        "source_stride": width,
        "destination": k,
    }
    hidden_step = whole[of_hidden]
    elsewhere = bank_address(banks[number % len(banks)])
    of_layers = [  # two that wait for the table at once, and a product
        dataclasses.replace(hidden_step, name=HIDDEN),
        _placed(hidden_step, AGAIN, elsewhere),
        *([_placed(whole["layer.0.ffn.hidden"], PRODUCT, elsewhere)] if config.gated else []),
    ]
    begin = [
        step for step in alone.steps if step.opcode in (Opcode.HEADER, Opcode.BIAS, Opcode.ROTARY)
    ]
    more = (of_one | of_two) & Flag.WINDOW | (Flag.GATED if config.gated else NO_FLAGS)
    begin[0] = dataclasses.replace(begin[0], flags=begin[0].flags | more)
    fields = [
        {"window": 0 if window is None else window_field(window.before, window.after)}
        for window in windows
    ]
    steps = [
        *begin,
        dataclasses.replace(whole[f"{of_hidden}.table"], name=f"{HIDDEN}.table"),
        *(dataclasses.replace(step, flags=step.flags | flags) for step in of_layers),
        _placed(whole["layer.0.q"], f"{ONE}.q", q),
        _placed(whole["layer.0.k"], f"{ONE}.k", k),
        _placed(whole["layer.0.v"], f"{ONE}.v", v),
        dataclasses.replace(whole["layer.0"], name=ONE, flags=of_one, values=attend | fields[0]),
        dataclasses.replace(
            whole["layer.0"], name=TWO, flags=flags | of_two, values=attend | other | fields[1]
        ),
    ]
    if width >= model.shape.hidden:
        head = dataclasses.replace(
            whole["head.0"], name=AFTER, flags=Flag.BANK | Flag.TABLE | flags, values=narrow
        )
        # Behind layers that look up in the table before.
        early = len(begin) + 1 + len(of_layers) if number % 2 else len(steps)
        steps.insert(early, dataclasses.replace(whole["head.0.table"], name=f"{AFTER}.table"))
        steps.append(head)
    if short:
        left = (f"{HIDDEN}.table", HIDDEN, AGAIN, PRODUCT, ONE, f"{AFTER}.table", AFTER)
        steps = [step for step in steps if step.name not in left]
    steps = [
        dataclasses.replace(
            step,
            flags=step.flags | (Flag.WIDE if wide and _reads_x8(step) else NO_FLAGS),
            values=step.values | (values or {}).get(step.name, {}),
        )
        for step in (*steps, alone.steps[-1])
    ]
    program = dataclasses.replace(alone, steps=tuple(steps))
    bias = model.position_bias
    bias_two = bias if of_two & Flag.BIAS else None
    return Layer(
        program,
        model.shape.heads,
        one,
        two,
        hidden,
        after,
        first,
        wide,
        bias,
        bias_two,
        window=windows[0],
        window_two=windows[1],
        gated=ffn if config.gated else None,
        rotary=model.rotary_of(0),
    )


def _with_gate(source: FeedForward, gate: Linear, number: int) -> FeedForward:
    """A layer whose products saturate here and there; in every fourth program by few bits."""
    rng = np.random.default_rng(number)
    assert source.up.s is not None
    up = dataclasses.replace(source.up, table=None, s=np.maximum(source.up.s - 6, 1))
    shift = int(rng.integers(11, 14)) if number % 4 else int(rng.choice([1, 2, 30, 31]))
    return dataclasses.replace(source, up=up, gate=gate, gate_shift=shift)


def _reads_x8(step: Step) -> bool:
    return step.opcode is Opcode.LINEAR and Flag.BANK not in step.flags


def _placed(step: Step, name: str, destination: int) -> Step:
    return dataclasses.replace(step, name=name, values=step.values | {"destination": destination})


def inference(made: Layer, lengths: Sequence[int], seed: int) -> Inference:
    """A batch of random sequences through all of it, with every write and the words of `o`."""
    rng, config = np.random.default_rng(seed), made.program.config
    traces, operands, masks = [], [], []
    for tokens in lengths:
        x8 = random_operand(rng, (tokens, made.width), made.wide)
        attend = rng.integers(0, 4, tokens) > 0
        attend[rng.integers(tokens)] = True
        trace: dict[str, np.ndarray] = {}
        for of, name, bias, window in (
            (made.one, ONE, made.bias, made.window),
            (made.two, TWO, made.bias_two, made.window_two),
        ):
            attention(x8, of, made.heads, attend, trace, name, bias, window, made.rotary)
        trace[HIDDEN] = trace[AGAIN] = linear(x8, made.hidden)
        if made.gated is not None and made.gated.gate_shift is not None:
            up = linear16(x8, made.gated.up)
            trace[PRODUCT] = gated(trace[AGAIN], up, made.gated.gate_shift)
        if any(step.name == AFTER for step in made.program.steps):
            trace[AFTER] = linear(trace[f"{TWO}.context"][:, : made.width], made.after)
        traces.append(trace)
        masks.append(attend)
        operands.append(x8)
    ids = rng.integers(0, 1 << 24, sum(lengths))
    types = rng.integers(0, 2, sum(lengths))
    return Inference(
        name=f"layer {made.width} wide, {'+'.join(map(str, lengths))} tokens",
        stream=made.program.stream(),
        tokens=token_words(ids, types, np.concatenate(masks), lengths),
        activations=operand_words(operands, config.lanes, config.precise),
        writes=tuple(expected_writes(made.program, traces, list(lengths))),
        result=_result(made, lengths, [trace[f"{TWO}.context"] for trace in traces]),
    )


def before(program: Program, stream: bytes, writes: Sequence[Writes]) -> tuple[Writes, ...]:
    """Of the writes of a program those of steps that lie whole before a stream differs from it."""
    sound = program.stream()
    pairs = enumerate(zip(stream, sound))
    end = next((at for at, (a, b) in pairs if a != b), min(len(stream), len(sound)))
    whole = [
        step.name
        for step, (at, size) in zip(program.steps, offsets(program), strict=True)
        if at + size <= end
    ]
    return tuple(w for w in writes if any(f"{w.tensor}.".startswith(f"{name}.") for name in whole))


def _result(made: Layer, lengths: Sequence[int], contexts: Sequence[np.ndarray]) -> Writes:
    """The words of `o`: the context of the last ATTEND, row tile after row tile."""
    n, values, valid, index = made.program.config.lanes, [], [], []
    begun = 0
    for tokens, context in zip(lengths, contexts):
        tiles = ceil_div(tokens, n)
        row, channel = np.indices((tiles, context.shape[1])).reshape(2, -1)
        token = row[:, None] * n + np.arange(n)
        values.append(context[np.minimum(token, tokens - 1), channel[:, None]])
        valid.append((token < tokens) & ((row[:, None] == 0) | (not made.first)))
        index.append(np.stack([begun + token, np.broadcast_to(channel[:, None], token.shape)], -1))
        begun += tokens
    together = np.concatenate(values)
    return Writes(
        port="result",
        tensor=f"{TWO}.context",
        address=np.arange(len(together)),
        values=together,
        valid=np.concatenate(valid),
        index=np.concatenate(index),
    )


def telling(config: Config, count: int = 200) -> Iterator[tuple[Layer, Inference]]:
    """Contexts that hang on the last bit of the row scales: in each lane, where it is 0 and 1."""
    n = config.lanes
    varied = [layer(config, number) for number in (0, 1, 4)]
    wanted = {(lane, bit) for lane in range(n) for bit in (0, 1)}
    for seed in range(count):
        made = varied[seed % len(varied)]
        found = inference(made, [min(made.program.tokens, 6 * n)], seed)
        traces: dict[str, np.ndarray] = {}
        x8, attend = activations(found, made.width)
        attention(x8, made.one, made.heads, attend, traces, ONE, made.bias, None, made.rotary)
        v = split_heads(traces[f"{ONE}.v"], made.heads)
        m, s = traces[f"{ONE}.row_m"][..., None], traces[f"{ONE}.row_s"][..., None]
        acc = matmul(traces[f"{ONE}.p"], v)
        tells = (requantize(acc, m, s) != requantize(acc, m ^ 1, s)).any(axis=-1)
        shown = {(int(t) % n, int(m[h, t, 0]) & 1) for h, t in np.argwhere(tells)}
        if shown & wanted:
            wanted -= shown
            yield made, found
        if not wanted:
            return


def activations(given: Inference, width: int) -> tuple[np.ndarray, np.ndarray]:
    """x8 [L, H] and the attend bits of an inference of one sequence."""
    assert given.activations is not None
    x8 = operand_of(given.activations, width)[: len(given.tokens)]
    return x8, given.tokens >> 25 & 1 == 1


def nearly_at_the_ends(config: Config) -> Iterator[Inference]:
    """Tensors of two words and more that would leave their bank with one more bit set."""
    # With several ways V has whole row tiles, so that it needs more room.
    least = config.lanes.bit_length() - 1 if config.ways > 1 else 0
    for bit in range((config.bank_words - 1).bit_length()):
        q, k, v, context = (
            bank_address(bank, config.bank_words - 1 ^ 1 << max(bit, least * (bank == 0)))
            for bank in (1, 3, 0, 2)
        )
        places = {"query": q, "key": k, "value": v, "context": context}
        values: dict[str, dict[str, int]] = {
            f"{ONE}.{short}": {"destination": places[field]} for short, field in FIELDS_OF.items()
        }
        both = values | {ONE: places, TWO: places, AFTER: {"source": context, "destination": q}}
        made = layer(config, 5, banks=(1, 3, 0, 2), values=both)
        yield inference(made, [2], bit)


FIELDS_OF = {"q": "query", "k": "key", "v": "value"}


def at_the_ends(config: Config, number: int, lengths: Sequence[int]) -> Iterator[Inference]:
    """Each tensor moved to the last place that its bank has for it, and one word on: LIMIT."""
    banks = (1, 3, 0, 2)  # what begins in bank 0 may span all, but V
    first = layer(config, number, banks=banks)
    sound = inference(first, lengths, number)

    def moved(name: str, fits: bool, values: dict[str, dict[str, int]]) -> Inference:
        short = not {HIDDEN, AFTER} & values.keys()
        changed = layer(config, number, banks=banks, short=short, values=values)
        made = inference(changed, lengths, number)
        if fits:
            return dataclasses.replace(made, name=f"{name}, at the end")
        # Of a tensor that is read elsewhere than it was written golden says nothing.
        read = name.startswith("read")
        writes = None if read else made.writes
        return made.damaged(f"{name}, beyond", Error.LIMIT, writes=writes)

    def last(tensor: str, bank: int) -> int:
        """The offset at which the tensor ends with its bank."""
        places = [w.address for w in sound.writes or () if w.port == "bank" and w.tensor == tensor]
        used = np.concatenate(places).max() // config.ways + 1 - bank * config.bank_words
        return int(config.bank_words - used)

    for short, field in FIELDS_OF.items():
        bank = banks["qkv".index(short)]
        fits = bank_address(bank, last(f"{ONE}.{short}", bank))
        for way, address in ((True, fits), (False, fits + 1)):
            both = {ONE: {field: address}, TWO: {field: address}}
            yield moved(field, way, {f"{ONE}.{short}": {"destination": address}} | both)
        # With several ways places without a token are written, and not read.
        unread = -lengths[-1] % config.lanes if config.ways > 1 and short == "v" else 0
        yield moved(f"read {field}", False, {TWO: {field: fits + 1 + unread}})
    fits = bank_address(banks[3], last(f"{TWO}.context", banks[3]))
    for way, address in ((True, fits), (False, fits + 1)):
        both = {step: {"context": address} for step in (ONE, TWO)}
        yield moved("context", way, both)
    columns = len(first.hidden.bias)
    row_tiles = sum(ceil_div(tokens, config.lanes) for tokens in lengths)
    rows = ceil_div(row_tiles, config.ways)  # of a way
    for step in first.program.steps:
        if step.name == AFTER:
            used = (rows - 1) * step.values["source_stride"] + step.values["length"]
            beyond = bank_address(banks[3], config.bank_words - used + 1)
            yield moved("read source", False, {AFTER: {"source": beyond}})
    room = 4 * config.bank_words - columns
    stride = room // (rows - 1) if rows > 1 else 0
    base = room - stride * (rows - 1)
    if rows > 1:
        for way, address in ((True, base), (False, base + 1)):
            fields = {"destination": address, "destination_stride": stride}
            yield moved(HIDDEN, way, {HIDDEN: fields})
