"""From a quantized model to the command stream and the embedding table of one configuration."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from golden.encoder import PROJECTION_SHIFT
from golden.identity import identity_of
from golden.linear import in_stream
from golden.model import Layer, Linear, Model, Norm
from rtl.compile.fit import longest_sequence, most_row_tiles
from rtl.compile.image import Image
from rtl.compile.packing import (
    bias_planes,
    identity,
    norm_planes,
    padded_heads,
    rotary_planes,
    weights,
)
from rtl.interface.command import (
    MAGIC,
    TABLE_BYTES,
    VERSION,
    bank_address,
    encode,
    sealed,
    window_field,
)
from rtl.interface.config import Config, ceil_div
from rtl.interface.isa import NO_FLAGS, Flag, Opcode
from rtl.interface.mechanisms import needs

QUERY, KEY, VALUE, CONTEXT = range(4)
"""The activation banks; the FFN buffer begins at QUERY and spans all four."""

EQUAL_SCORES = (1 << 15, 47)
"""A multiplier that rounds every score to 0: all valid keys get p = 255, the context is a mean."""


@dataclass(frozen=True)
class Step:
    """One descriptor of a program, what it computes, and the payload that follows it.

    name
        As in the golden trace: the tensor that the step writes (ATTEND: the layer).
    """

    name: str
    opcode: Opcode
    flags: Flag
    values: dict[str, int]
    payload: bytes = b""

    def body(self, width: int) -> bytes:
        """The descriptor without its CRC, in a stream of words of `width` bytes."""
        return encode(width, self.opcode, self.flags, **self.values)


@dataclass(frozen=True)
class Program:
    """A compiled model.

    Attributes
    ----------
    config
        The accelerator that it is for.
    tokens
        The longest sequence: the model's, or what the configuration's buffers hold.
    row_tiles
        What the sequences of a batch may take together, each whole row tiles.
    steps
        Descriptors with payloads, HEADER and END included.
    """

    config: Config
    tokens: int
    row_tiles: int
    steps: tuple[Step, ...]

    @property
    def rows_crc(self) -> int:
        """CRC-32 of the rows that belong to it."""
        return self.steps[0].values["rows"]

    def stream(self) -> bytes:
        """model.bin: the command stream."""
        width = self.config.stream_width
        return sealed(width, ((step.body(width), step.payload) for step in self.steps))


def compile_model(model: Model, config: Config, *, whole_last_layer: bool = False) -> Program:
    """The whole encoder: EMBED to logits.

    Where the head reads token 0 alone the last layer computes row tile 0 alone: Q, scores, context,
    output and feed-forward; K and V stay whole. With `whole_last_layer` it computes all row tiles.
    Same logits. Without pooling the head also computes all row tiles.

    Raises
    ------
    FitError
        The model exceeds the configuration.
    """
    tokens = longest_sequence(model, config)
    post = model.shape.norm == "post"
    prune = not whole_last_layer and model.shape.pooling == "first"
    compiler = _Compiler(model, config)

    steps: list[Step] = compiler.header(tokens)
    norms = list(_norms(model))
    embedding_norm = model.embedding.norm
    if embedding_norm is not None and (post or model.layers[0].norm1 is None):
        steps += [compiler.norm("embedding", embedding_norm, Flag.RESIDUAL), compiler.embed()]
    elif embedding_norm is None:
        steps += [compiler.norm(*norms.pop(0)), compiler.embed()]
    else:
        steps += [
            compiler.norm("embedding", embedding_norm, Flag.RESIDUAL),
            compiler.embed(),
            compiler.norm(*norms.pop(0), Flag.CHAINED),
        ]
    for index, layer in enumerate(model.layers):
        first = _if(Flag.FIRST_TILE, prune and index == len(model.layers) - 1)
        residual = _if(Flag.RESIDUAL, post)
        name = f"layer.{index}"
        projections, attends = compiler.attention(
            name, layer, first, _if(Flag.WIDE, model.attention_wide(index))
        )
        steps += projections
        if index == 0 and model.projection is not None:
            steps += compiler.projection(model.projection)
        steps += attends
        steps.append(compiler.norm(*norms.pop(0), residual | first))
        steps.append(
            compiler.residual(
                f"{name}.attention.sum",
                layer.attention.o,
                layer.attention.residual_shift,
                CONTEXT,
                first,
            )
        )
        of_ffn = layer.norm1 if post else layer.norm2
        assert of_ffn is not None
        steps += compiler.feed_forward(name, layer, first | _if(Flag.WIDE, of_ffn.wide))
        steps.append(compiler.norm(*norms.pop(0), residual | first))
        steps.append(
            compiler.residual(
                f"{name}.ffn.sum",
                layer.ffn.down,
                layer.ffn.residual_shift,
                QUERY,
                first | _if(Flag.WIDE, layer.ffn.wide),
            )
        )
    steps += compiler.head()
    steps.append(Step("end", Opcode.END, NO_FLAGS, {}))
    return Program(config, tokens, most_row_tiles(model, config), tuple(steps))


def image_of(model: Model, program: Program) -> Image:
    """The stream of a model with the table that belongs to it."""
    table = embedding_table(model, program.config.lanes)
    return Image(stream=program.stream(), rows=table.tobytes(), row_bytes=table[0].nbytes)


def embedding_table(model: Model, lanes: int) -> np.ndarray:
    """The flat table of the embedding memory: int8 [rows, words * lanes].

    Rows: the tokens, then the positions of type 0, then those of type 1. A row is padded with zeros
    to whole words of `lanes` bytes. Where values have 16 bits a word of the low bytes follows each.
    """
    embedding, hidden = model.embedding, model.shape.hidden

    def flat(token: np.ndarray, position: np.ndarray) -> np.ndarray:
        rows = np.concatenate([token, position.reshape(-1, hidden)])
        padded = np.pad(rows, ((0, 0), (0, -hidden % lanes)))
        return padded.reshape(len(rows), -1, lanes)

    words = flat(embedding.token, embedding.position)
    if embedding.token_low is not None and embedding.position_low is not None:
        words = np.stack([words, flat(embedding.token_low, embedding.position_low)], axis=2)
    return words.reshape(len(words), -1)


def _norms(model: Model) -> Iterator[tuple[str, Norm]]:
    """The norms after the embedding's, in the order in which the program begins them.

    Post-norm: each follows the sum of its half layer. Pre-norm: each precedes its half layer, so
    the one that follows a sum is the next half's, and the last sum's is the final norm. A layer 0
    without norm1 reads the operand of the embedding's.
    """
    for index, layer in enumerate(model.layers):
        if layer.norm1 is not None:
            yield f"layer.{index}.attention", layer.norm1
        yield f"layer.{index}.ffn", layer.norm2
    if model.final_norm is not None:
        yield "final", model.final_norm


def _if(flag: Flag, asked: object) -> Flag:
    return flag if asked else NO_FLAGS


class _Compiler:
    """Makes the steps of one model for one configuration."""

    def __init__(self, model: Model, config: Config) -> None:
        self.model, self.config, self.lanes = model, config, config.lanes
        self.table: bytes | None = None  # what the activation table holds
        self.needs = needs(model)
        self.biased = _if(Flag.BIAS, self.needs["bias_heads"])

    def header(self, tokens: int) -> list[Step]:
        """HEADER, and BIAS and ROTARY where the model has a position bias or rotary positions."""
        shape, bias, rotary = self.model.shape, self.model.position_bias, self.model.rotary
        values = {
            "magic": MAGIC,
            "version": VERSION,
            "lanes": self.lanes,
            "tokens": tokens,
            "hidden": shape.hidden,
            "ffn": shape.ffn,
            "labels": shape.labels,
            "rows": zlib.crc32(np.ascontiguousarray(embedding_table(self.model, self.lanes)).data),
            "model": int.from_bytes(identity_of(self.model), "little"),
        }
        flags = self.biased | _if(Flag.ROTARY, self.needs["rotary_pairs"])
        flags |= _if(Flag.GATED, self.needs["gated"])
        flags |= _if(Flag.WINDOW, any(layer.window for layer in self.model.layers))
        steps = [Step("header", Opcode.HEADER, flags, values)]
        row_tiles = ceil_div(tokens, self.lanes)
        if bias is not None:
            payload = bias_planes(bias, self.lanes, row_tiles)
            words = {"heads": shape.heads, "row_tiles": row_tiles}
            steps.append(Step("position_bias", Opcode.BIAS, NO_FLAGS, words, payload))
        if rotary:
            payload = rotary_planes(rotary, self.lanes, row_tiles)
            words = {"pairs": self.needs["rotary_pairs"], "row_tiles": row_tiles}
            steps.append(Step("rotary", Opcode.ROTARY, NO_FLAGS, words, payload))
        return steps

    def embed(self) -> Step:
        shape, embedding = self.model.shape, self.model.embedding
        values = {
            "token_factor": embedding.token_factor,
            "position_factor": embedding.position_factor,
            "channels": shape.hidden,
            "token_rows": shape.vocabulary,
            "position_rows": shape.positions,
            "offset": shape.position_offset,
            "types": shape.types,
            "wide": int(embedding.wide),
        }
        return Step("embedding.sum", Opcode.EMBED, NO_FLAGS, values)

    def norm(self, name: str, norm: Norm, flags: Flag = NO_FLAGS) -> Step:
        flags |= _if(Flag.SHIFTS, norm.operand_shifts is not None) | _if(Flag.RMS, norm.rms)
        values = {"channels": len(norm.gamma), "shift": norm.shift, "epsilon": norm.epsilon}
        return Step(f"{name}.norm", Opcode.NORM, flags, values, norm_planes(norm, self.lanes))

    def attention(
        self, name: str, layer: Layer, first: Flag, wide: Flag
    ) -> tuple[list[Step], list[Step]]:
        """Q, K and V; and ATTEND, or one for each head of Q that shares a head of K and V.

        ATTEND i has the heads of Q from i * kv_heads on, each with its own head of K and V.
        """
        shape, attention, window = self.model.shape, layer.attention, layer.window
        tiles = ceil_div(shape.head_size, self.lanes)
        heads = shape.kv_heads or shape.heads
        values = {
            "heads": heads,
            "head_size": shape.head_size,
            "stride": shape.inner,
            "key": bank_address(KEY),
            "value": bank_address(VALUE),
            "score_m": attention.score_m,
            "score_s": attention.score_s,
            "context_m": attention.context_m,
            "context_s": attention.context_s,
            "window": 0 if window is None else window_field(window.before, window.after),
        }
        limited = _if(Flag.WINDOW, window)
        turned, rotary = NO_FLAGS, {}
        if layer.rotary is not None:  # both tables have as many pairs
            turned = Flag.ROTARY
            rotary = {"head_size": shape.head_size, "rotary": layer.rotary * shape.head_size // 2}
        projections = [
            # ATTEND has one stride for Q, K and context.
            *(
                self._linear(
                    f"{name}.{of}", linear, flags, None, bank_address(bank), shape.inner, **rotary
                )
                for of, linear, bank, flags in (
                    ("q", attention.q, QUERY, first | turned | wide),
                    ("k", attention.k, KEY, turned | wide),
                )
            ),
            self._linear(
                f"{name}.v",
                padded_heads(attention.v, heads, tiles * self.lanes),
                Flag.TRANSPOSED | wide,
                None,
                bank_address(VALUE),
                0,
            ),
        ]
        attends = []
        for channel in range(0, shape.inner, heads * shape.head_size):
            places = {
                "query": bank_address(QUERY, channel),
                "context": bank_address(CONTEXT, channel),
            }
            flags = first | self.biased | limited
            attends.append(Step(name, Opcode.ATTEND, flags, values | places))
        return projections, attends

    def int8(
        self, name: str, linear: Linear, source: int | None, bank: int, flags: Flag
    ) -> list[Step]:
        """A layer with int8 results, from X8 or a bank, after its table where that changes."""
        steps = []
        if linear.table is not None:
            # Entry x & 255 stands at that offset, as in the golden model; low halves follow.
            low = linear.table_low
            table = linear.table.tobytes() + (b"" if low is None else low.tobytes())
            flags |= Flag.TABLE
            if table != self.table:
                wide = _if(Flag.WIDE, low is not None)
                steps.append(Step(f"{name}.table", Opcode.TABLE, wide, {}, table))
                self.table = table
        steps.append(
            self._linear(name, linear, flags, source, bank_address(bank), len(linear.bias))
        )
        return steps

    def feed_forward(self, name: str, layer: Layer, flags: Flag) -> list[Step]:
        """The hidden activations, which a gate's LINEAR writes first where there is one.

        How wide they are, the latest TABLE says: a gate without one gets the table of the codes.
        """
        ffn = layer.ffn
        if ffn.gate is None:
            return self.int8(f"{name}.ffn.hidden", ffn.up, None, QUERY, flags)
        assert ffn.gate_shift is not None
        gate, address, stride = ffn.gate, bank_address(QUERY), len(ffn.up.bias)
        if gate.table is None:
            gate = replace(gate, table=np.arange(TABLE_BYTES, dtype=np.uint8).view(np.int8))
        product = self._linear(
            f"{name}.ffn.hidden", ffn.up, flags, None, address, stride, gate=ffn.gate_shift
        )
        return [*self.int8(f"{name}.ffn.gate", gate, None, QUERY, flags), product]

    def projection(self, linear: Linear) -> list[Step]:
        """The projection of a factorised embedding: X16 = round_shift(X16, 15) + linear(X8).

        A sum reads from the banks, so X8 is copied to CONTEXT, which is free until ATTEND; and each
        sum has a NORM: this one leaves X16 as it is, and X8, which nothing reads any more, as 0.
        """
        hidden, size = linear.weight.shape
        nothing = Norm(np.zeros(hidden, np.int16), np.zeros(hidden, np.int32), 1, 1)
        return [
            self._linear(
                "projection.copy",
                identity(size, size),
                NO_FLAGS,
                None,
                bank_address(CONTEXT),
                size,
            ),
            self.norm("projection", nothing),
            self.residual("projection.sum", linear, PROJECTION_SHIFT, CONTEXT, NO_FLAGS),
        ]

    def residual(self, name: str, linear: Linear, shift: int, source: int, first: Flag) -> Step:
        return self._linear(
            name,
            linear,
            Flag.RESIDUAL | first,
            source,
            0,
            self.model.shape.hidden,
            shift=shift,
        )

    def head(self) -> Iterator[Step]:
        shape = self.model.shape
        source: int | None = None
        first = _if(Flag.FIRST_TILE, shape.pooling != "none")
        wide = _if(Flag.WIDE, self.model.pooled_wide)
        if shape.pooling == "mean":
            yield from self._mean()
            source = CONTEXT
        *hidden, last = self.model.head
        for number, linear in enumerate(hidden):
            target = QUERY if source == CONTEXT else CONTEXT
            yield from self.int8(f"head.{number}", linear, source, target, first | wide)
            source, wide = target, NO_FLAGS
        if self.model.head_norm is not None:  # its operand is X8, as of any norm
            codes = in_stream(shape.hidden)
            yield self.norm("head", self.model.head_norm, first)
            assert source is not None
            yield self.residual("head.sum", codes, PROJECTION_SHIFT, source, first)
            source, wide = None, _if(Flag.WIDE, self.model.head_norm.wide)
        yield self._linear("logits", last, Flag.LOGITS | first | wide, source, 0, shape.labels)

    def _mean(self) -> Iterator[Step]:
        """Mean pooling as attention with equal scores over V = X8."""
        hidden, n = self.model.shape.hidden, self.lanes
        copied = identity(ceil_div(hidden, n) * n, hidden)
        yield self._linear("mean.v", copied, Flag.TRANSPOSED, None, bank_address(VALUE), 0)
        assert self.model.mean_m is not None
        assert self.model.mean_s is not None
        values = {
            "heads": 1,
            "head_size": hidden,
            "stride": hidden,
            "query": bank_address(QUERY),
            "key": bank_address(KEY),
            "value": bank_address(VALUE),
            "context": bank_address(CONTEXT),
            "score_m": EQUAL_SCORES[0],
            "score_s": EQUAL_SCORES[1],
            "context_m": self.model.mean_m,
            "context_s": self.model.mean_s,
            "window": 0,
        }
        yield Step("mean", Opcode.ATTEND, Flag.FIRST_TILE, values)

    def _linear(
        self,
        name: str,
        linear: Linear,
        flags: Flag,
        source: int | None,
        destination: int,
        stride: int,
        **fields: int,
    ) -> Step:
        """A LINEAR step; `source` is a bank number, or None for X8. Other fields are 0."""
        columns, length = linear.weight.shape
        values = {
            "length": length,
            "columns": columns,
            "source": 0 if source is None else bank_address(source),
            "source_stride": self.model.shape.hidden if source is None else length,
            "destination": destination,
            "destination_stride": stride,
            **dict.fromkeys(("shift", "head_size", "rotary", "gate"), 0),
            **fields,
        }
        flags |= _if(Flag.BANK, source is not None)
        tile = self.lanes if Flag.TRANSPOSED in flags else self.config.tile_columns
        return Step(name, Opcode.LINEAR, flags, values, weights(linear, tile))
