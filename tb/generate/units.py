"""Units without streams, cycle by cycle: what their pins are given, and what golden answers when.

The cycles of an answer come from the latency that the unit's data sheet states, so a unit that is
late or early shows wrong values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from golden.activation import lookup
from golden.layernorm import layernorm
from golden.linear import operand
from golden.requantize import requantize
from golden.softmax import row_scale, softmax
from tb import activation as activations
from tb import layernorm as norms
from tb import matmul as products
from tb import position_bias as biases
from tb import reciprocal, rsqrt
from tb import requantize as accumulators
from tb import softmax as rows
from tb.cut import Vector
from tb.generate.player import PAUSE, Player


def _stream(
    player: Player, name: str, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]
) -> None:
    """A word in and a word out each cycle."""
    for t in range(len(next(iter(inputs.values())))):
        player.pause()
        cycle = player.play(**{port: words[t] for port, words in inputs.items()})
        for port, words in outputs.items():
            tensor = name if len(outputs) == 1 else f"{name}.{port}"
            index = (t * words[t].size,)
            player.expect(cycle + player.latency, port, tensor, words[t], ("index",), index)


def _words(values: np.ndarray, lanes: int) -> np.ndarray:
    return np.resize(values, (-(-values.size // lanes), lanes))


def _requantize(player: Player, vectors: list[Vector], limit: int) -> None:
    n = player.lanes
    _stream(player, "corners", *accumulators.corners(n))
    _stream(player, "random", *accumulators.random(n, 100, seed=1))
    for vector in vectors:
        given = {name: _words(tensor.values, n) for name, tensor in vector.inputs.items()}
        _stream(
            player, vector.name, given, {"o": requantize(given["acc"], given["m"], given["s"], 16)}
        )


def _reciprocal(player: Player, vectors: list[Vector], limit: int) -> None:
    _stream(player, "random", *reciprocal.cases(seed=1))
    for vector in vectors:
        outputs = {name: tensor.values for name, tensor in vector.outputs.items()}
        _stream(player, vector.name, {"i": vector.inputs["s"].values}, outputs)


def _rsqrt(player: Player, vectors: list[Vector], limit: int) -> None:
    _stream(player, "random", *rsqrt.cases(seed=1))
    for vector in vectors:
        outputs = {name: tensor.values for name, tensor in vector.outputs.items()}
        _stream(player, vector.name, {"i": vector.inputs["v"].values}, outputs)


def _activation(player: Player, vectors: list[Vector], limit: int) -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    x = np.stack([np.roll(codes, 17 * lane) for lane in range(player.lanes)], axis=1)
    cases = [("random", activations.random_table(1), x)]
    for vector in vectors:
        given = {name: tensor.values for name, tensor in vector.inputs.items()}
        cases.append(
            (vector.name, given["table"].astype(np.int8), _words(given["x"], player.lanes))
        )
    for name, table, x in cases:
        for _ in range(player.latency):
            player.play()
        for code in range(256):
            player.pause()
            player.play(write_en=1, write_address=code, write_data=int(table[code]) & 255)
        x = x.astype(np.int8)
        _stream(player, name, {"i": x}, {"o": lookup(table, x)})


def _matmul(player: Player, vectors: list[Vector], limit: int) -> None:
    n, columns = player.lanes, player.config.tile_columns
    pauses = 0.0 if player.stalls is None else PAUSE
    lengths = [1, 1, columns, columns, 2, 37, 1, columns + 1, 64]
    random = products.random_tiles(n, columns, lengths, 1)
    cases = [("random", random, [(place * n, 0) for place in range(len(random))])]
    if player.config.precise:
        wide = products.random_tiles(n, columns, products.WIDE_LENGTHS, 2)
        cases.append(("wide", wide, [(place * n, 0) for place in range(len(wide))]))
    for vector in vectors:
        tiles = products.cut_tiles(vector, n, columns)
        across = -(-vector.inputs["b"].values.shape[1] // columns)
        count = min(len(tiles), max(2, limit // (n * columns)))
        kept = [place * len(tiles) // count for place in range(count)]
        corners = [(place // across * n, place % across * columns) for place in kept]
        cases.append((vector.name, [tiles[place] for place in kept], corners))
    for name, tiles, corners in cases:
        joined = [False] * len(tiles) if player.config.precise else []
        if name == "wide":
            joined = products.WIDE_JOINED
        inputs, ends = products.schedule(tiles, pauses, player.now + 1, joined)
        begin = player.now
        for t in range(len(inputs["valid"])):
            player.play(**{port: words[t] for port, words in inputs.items()})
        sums = products.products(tiles, joined)
        drains = [not goes_on for goes_on in [*joined, *[False] * len(tiles)][1:]]
        for acc, end, (row, column), drained in zip(sums, ends.tolist(), corners, drains):
            if not drained:
                continue
            for place, values in enumerate(acc.T):
                cycle = begin + end + place + player.latency
                player.expect(cycle, "o", name, values, ("row", "column"), (row, column + place))


def _softmax(player: Player, vectors: list[Vector], limit: int) -> None:
    n, tokens = player.lanes, player.config.tokens
    player.enables = {
        "trace_p": ("trace_p_en", "trace_p_key"),
        "trace_max": ("trace_row_en", ""),
        "trace_sum": ("trace_row_en", ""),
    }
    keys = min(tokens, 7)
    cases = [
        ("random", rows.random_tiles(n, keys, 4, 700, 1), rows.random_mask(keys, 1), [0, 1, 2, 3])
    ]
    if tokens >= 6:
        tiles, attend = rows.corner_tiles(n)
        cases.append(("corners", tiles, attend, list(range(len(tiles)))))
    if tokens >= 16:
        tiles = rows.all_distances(n, tokens)
        attend = np.ones(tiles[0].scores.shape[1], bool)
        cases.append(("every distance", tiles, attend, list(range(len(tiles)))))
    for vector in vectors:
        tiles, attend = rows.from_vector(vector, n)
        count = min(len(tiles), max(2, limit // (n * n)))
        kept = [place * len(tiles) // count for place in range(count)]
        cases.append((vector.name, [tiles[place] for place in kept], attend, kept))
    for name, tiles, attend, places in cases:
        _tiles(player, name, tiles, attend, places)


def _tiles(
    player: Player, name: str, tiles: list[rows.Tile], attend: np.ndarray, places: list[int]
) -> None:
    """Tiles through both buffers; `places` are their numbers among the rows of the tensor."""
    n, keys = tiles[0].scores.shape
    for key, bit in enumerate(attend):
        player.pause()
        player.play(mask_en=1, mask_address=key, mask_attend=int(bit))
    if player.config.windows:
        tiles = rows.in_windows(tiles, keys)
    answers = [softmax(tile.scores, tile.valid(attend)) for tile in tiles]
    ends: list[int] = []  # cycle of `finished` of each tile that was sent whole
    sending = key = finished = 0
    reads: list[tuple[int, int]] = []
    free = shown = 0
    row_buffer = 0
    scales: list[tuple[np.ndarray, np.ndarray]] = []
    while finished < len(tiles) or reads or player.now <= shown:
        cycle = player.now
        ends_now = finished < len(ends) and ends[finished] == cycle
        given: dict[str, Any] = {}
        if ends_now:
            row_buffer = finished % 2
            reads += [(finished, k) for k in range(keys)]
        given["row_buffer"] = row_buffer
        if reads:
            tile, wanted = reads.pop(0)
            given |= {"p_buffer": tile % 2, "p_address": wanted}
            shown = cycle + rows.READ_LATENCY
            index = (places[tile] * n, wanted)
            values = answers[tile][0][:, wanted]
            player.expect(shown, "p_data", f"{name} read", values, ("row", "key"), index)
        pause = player.chance(PAUSE)
        if sending < len(tiles) and finished >= sending - 1 and not pause:
            last = key == keys - 1
            given |= {
                "score_en": 1,
                "score_buffer": sending % 2,
                "score_first": int(key == 0),
                "score_last": int(last),
                "score_key": key,
                "score_place": key,
                "score_data": tiles[sending].scores[:, key],
            }
            if (seen := tiles[sending].seen) is not None:
                given["score_seen"] = rows.bits(seen[:, key])
            if last:
                given |= {"context_m": tiles[sending].m, "context_s": tiles[sending].s}
                free = max(cycle + rows.START_LATENCY, free) + rows.pass_cycles(n, keys)
                ends.append(free)
            sending, key = (sending + 1, 0) if last else (sending, key + 1)
        player.play(**given)
        player.expect(cycle, "finished", f"{name} finished", int(ends_now))
        if ends_now:
            tile = finished
            row_m, row_s = row_scale(answers[tile][2], tiles[tile].m, tiles[tile].s)
            scales.append((row_m, row_s))
            finished += 1
        # The scales stay until the next pass has finished.
        if scales:
            row = (places[finished - 1] * n,)
            for port, values in zip(("row_m", "row_s"), scales[-1]):
                player.expect(cycle, port, f"{name} {port}", values, ("row",), row)
    for tile, (p, row_max, row_sum) in enumerate(answers):
        for k in range(keys):
            index = (places[tile] * n, k)
            # Their own enable says when; the cycle only keeps their order.
            player.expect(ends[tile], "trace_p", name, p[:, k], ("row", "key"), index, address=k)
        for port, values in (("trace_max", row_max), ("trace_sum", row_sum)):
            row = (places[tile] * n,)
            player.expect(ends[tile], port, f"{name} {port[6:]}", values, ("row",), row)


def _position_bias(player: Player, vectors: list[Vector], limit: int) -> None:
    n, heads, rows = player.lanes, max(player.config.bias_heads, 1), player.config.row_tiles
    most = max(2, limit // (n * n))
    cases = []
    for name, corners in (("random", False), ("corners", True)):
        table = biases.random_table(heads, rows * n, 1, corners=corners)
        blocks = biases.every_place(table, n, 1, corners=corners)
        cases.append((name, table, blocks[: max(most, 40)], True))
    table = biases.random_table(heads, rows * n, 2)
    cases.append(("ends", table, biases.parts(biases.every_place(table, n, 2)[:most], 2), True))
    cases.append(("without a bias", table, biases.every_place(table, n, 3)[:most], False))
    for vector in vectors:
        table, blocks = biases.from_vector(vector, n, most)
        if table.shape[1] // 2 < rows * n and len(table) <= heads:
            cases.append((vector.name, table, blocks, True))
    for name, table, blocks, biased in cases:
        _scores(player, name, table, blocks, biased)


def _scores(
    player: Player, name: str, table: np.ndarray, blocks: list[biases.Block], biased: bool
) -> None:
    """The table, then the columns of each block."""
    n, each = player.lanes, player.config.bias_head_words
    rows = (table.shape[1] + 1) // 2 // n
    for address, values in biases.words(table, n, each).items():
        player.pause()
        player.play(write_en=1, write_address=address, write_data=values)
    given: dict[int, dict[str, Any]] = {}  # by cycle
    shown: dict[int, tuple[biases.Block, biases.Column, list[int]]] = {}
    cycle = player.now
    for block, listed in zip(blocks, biases.columns(blocks, rows, len(blocks)), strict=True):
        while player.chance(PAUSE):
            cycle += 1
        wanted = biases.golden(table, block) if biased else block.scores
        for column in listed:
            given.setdefault(cycle, {}).update(
                place_head=column.head,
                place_word=(block.key_row - block.row) % each,
                place_column=column.place,
            )
            given.setdefault(cycle + biases.AHEAD, {}).update(
                score_en=1,
                score_data=column.score,
                **{f"score_{key}": value for key, value in column.others.items()},
            )
            values = wanted[:, column.place].tolist()
            shown[cycle + biases.AHEAD + player.latency] = block, column, values
            cycle += 1
    while player.now < cycle + biases.AHEAD + player.latency:
        now = player.play(biased=int(biased), **given.get(player.now, {}))
        player.expect(now, "o_en", f"{name} en", int(now in shown))
        if now in shown:
            block, column, values = shown[now]
            index = (block.row * n, block.key_row * n + column.place)
            player.expect(now, "o_data", name, values, ("query", "key"), index)
            for key, value in column.others.items():
                player.expect(now, f"o_{key}", f"{name} {key}", value)


def _layernorm(player: Player, vectors: list[Vector], limit: int) -> None:
    n, stalls = player.lanes, player.stalls
    busy, spread = (0.0, 0) if stalls is None else (PAUSE, 60)
    channels, fit = min(player.config.hidden, 13), player.config.row_tiles
    random = norms.random_operation(n, channels, min(fit, 3), seed=1, busy=busy, spread=spread)
    # No read for long where a second pass is about to begin: its constants must survive.
    taken_long = norms.random_operation(n, min(channels, 6), min(fit, 4), seed=5)
    taken_long.busy = lambda t: 40 <= t < 120 or t % 90 > 50
    operations = [("random", random), ("port taken", taken_long)]
    operations += [("extremes", one) for one in norms.extreme_operations(n, channels)]
    operations += [("small shifts", one) for one in norms.small_shifts(n, channels)]
    operations.append(("ends of the operand", norms.operand_ends(n, channels)))
    if player.config.rms_norm:
        operations += [("RMSNorm", one) for one in norms.of_rms([random])]
        operations.append(("extremes of RMSNorm", norms.rms_extremes(n, min(channels, 1023))))
    cases = []
    for place, (name, one) in enumerate(operations):
        one.z, one.arrival = one.z[:fit], one.arrival[:fit]
        cases.append((f"{name} {place}", one, list(range(len(one.z)))))
    for vector in vectors:
        operation = norms.from_vector(vector, n)
        available = min(len(operation.z), player.config.row_tiles)
        count = min(available, max(2, limit // (n * n)))
        kept = [place * len(operation.z) // count for place in range(count)]
        operation.z = operation.z[kept]
        operation.arrival = [1] * count
        if stalls is not None:
            rng = np.random.default_rng([stalls, player.now])
            taken = rng.random(norms.MAX_CYCLES) < PAUSE
            operation.arrival = (np.cumsum(rng.integers(0, spread, count)) + 1).tolist()
            operation.busy = norms.taken_in(taken)
        cases.append((vector.name, operation, kept))
    for name, operation, places in cases:
        _operation(player, name, operation, places)


def _operation(player: Player, name: str, operation: norms.Operation, places: list[int]) -> None:
    """Row tiles by the policy of the data sheet; `places` are their numbers in the tensor."""
    tiles, n, channels = operation.z.shape
    norm = operation.norm
    shifts = norm.operand_shifts
    idle = {"available": 0, "x_busy": 0}
    for channel in range(channels):
        player.play(
            parameter_en=1,
            parameter_address=channel,
            parameter_gamma=int(norm.gamma[channel]),
            parameter_beta=int(norm.beta[channel]),
            parameter_operand_shift=0 if shifts is None else int(shifts[channel]) % 8,
            **idle,
        )
    y = np.stack([layernorm(tile, norm) for tile in operation.z])
    y8 = operand(y, shifts)
    reads = norms.schedule(operation)
    asked = {cycle: address for cycle, address, _ in reads}
    normed = [(cycle, address) for cycle, address, second in reads if second]
    written = {cycle + norms.LATENCY: address for cycle, address in normed}
    done = [cycle + 1 for cycle, address in written.items() if address % channels == channels - 1]
    begin = player.play(
        start=1,
        channels=channels,
        tiles=tiles,
        shift=norm.shift,
        epsilon=norm.epsilon,
        **({"rms": int(bool(norm.rms))} if player.config.rms_norm else {}),
        **idle,
    )
    words = operation.z.transpose(0, 2, 1).reshape(-1, n)
    for t in range(1, done[-1] + 3):
        given: dict[str, Any] = {
            "available": sum(arrival <= t for arrival in operation.arrival),
            "x_busy": int(operation.busy(t)),
        }
        if t - 2 in asked:
            given["x_data"] = words[asked[t - 2]]
        cycle = player.play(**given)
        assert cycle == begin + t
        player.expect(cycle, "x_en", f"{name} x_en", int(t in asked))
        player.expect(cycle, "y_en", f"{name} y_en", int(t in written))
        finished = sum(when <= t for when in done)
        player.expect(cycle, "finished", f"{name} finished", finished)
        if t in asked:
            player.expect(cycle, "x_address", f"{name} x_address", asked[t])
        if t in written:
            tile, channel = divmod(written[t], channels)
            index = (places[tile] * n, channel)
            axes = ("row", "channel")
            player.expect(cycle, "y_address", f"{name} y_address", written[t])
            player.expect(cycle, "y", name, y[tile, :, channel], axes, index)
            player.expect(cycle, "y8", f"{name} x8", y8[tile, :, channel], axes, index)
    player.expect(begin + t, "busy", f"{name} busy", 0)


PLAYS: dict[str, Callable[[Player, list[Vector], int], None]] = {
    "requantize": _requantize,
    "activation": _activation,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "softmax": _softmax,
    "position_bias": _position_bias,
    "layernorm": _layernorm,
    "matmul": _matmul,
}
