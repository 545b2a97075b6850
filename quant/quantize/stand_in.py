"""A model of a checkpoint's shape, where no integers are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from golden.model import FeedForward, Linear, Model, Rotary, Shape
from golden.random import random_model
from quant.foreign.checkpoint import Checkpoint
from quant.model.spec import EncoderSpec
from quant.quantize.quantizers import activation_table


def shape_of(spec: EncoderSpec) -> Shape:
    """Golden's shape of a checkpoint, before calibration adds copies of neurons."""
    pooling: Any = "none" if spec.every_token else spec.pooling
    return Shape(
        layers=spec.layers,
        hidden=spec.hidden,
        heads=spec.heads,
        head_size=spec.head_size,
        ffn=spec.ffn,
        labels=spec.outputs,
        vocabulary=spec.vocabulary,
        positions=spec.positions,
        types=spec.types,
        position_offset=spec.position_offset,
        norm="pre" if spec.norm == "pre" else "post",
        embedding_norm=spec.embedding_norm,
        pooling=pooling,
        kv_heads=spec.kv_heads or None,
    )


def stand_in(checkpoint: Checkpoint) -> Model:
    """A model of the same shape whose integers say nothing: cycles and sizes depend on none.

    But for equal tables of activations, which are sent once: every layer has its own, as clipping
    points differ, and ReLU's is the same for all of them. No channel has a shift of its own and the
    embedding has 8 bits a value, as in the contract without remedies, and 16 where its rows are
    given; it has two tokens.
    """
    spec = checkpoint.spec
    shape = replace(shape_of(spec), vocabulary=2)
    made = random_model(shape, 0, spec.embedding_size, head_norm=spec.head_norm)
    activations = [spec.activation] * spec.layers + list(spec.head_activations)
    points = np.linspace(1, 4, len(activations))
    tables = [activation_table(name, p)[0][0] for name, p in zip(activations, points)]

    def plain(norm: Any) -> Any:
        rms = spec.rms_norm or None
        return None if norm is None else replace(norm, operand_shifts=None, rms=rms)

    def feed_forward(ffn: FeedForward, table: Any) -> FeedForward:
        up = replace(ffn.up, table=table)
        if not spec.gated:
            return replace(ffn, up=up)
        return replace(ffn, up=replace(up, table=None), gate=up, gate_shift=1)

    head = []
    for j in range(spec.head_layers):
        outputs, inputs = checkpoint.arrays[f"head.{j}.weight"].shape
        last = j == spec.head_layers - 1
        head.append(
            Linear(
                weight=np.zeros((outputs, inputs), np.int8),
                bias=np.zeros(outputs, np.int32),
                m=None if last else np.full(outputs, 1 << 15, np.int32),
                s=None if last else np.full(outputs, 15, np.int32),
                table=None if last else tables[spec.layers + j],
            )
        )
    bias = None
    if spec.position_bias:
        bias = np.zeros((spec.heads, 2 * spec.max_tokens - 1), np.int16)
    return replace(
        made,
        embedding=replace(
            made.embedding,
            norm=plain(made.embedding.norm),
            token_factor=1,
            position_factor=1,
            token_low=np.zeros_like(made.embedding.token) if spec.given else None,
            position_low=np.zeros_like(made.embedding.position) if spec.given else None,
        ),
        layers=tuple(
            replace(
                layer,
                window=spec.window(i),
                norm1=plain(layer.norm1) if i or spec.first_norm else None,
                norm2=plain(layer.norm2),
                ffn=feed_forward(layer.ffn, table),
                rotary=spec.table(i),
            )
            for i, (layer, table) in enumerate(zip(made.layers, tables))
        ),
        final_norm=plain(made.final_norm),
        head_norm=plain(made.head_norm),
        head=tuple(head),
        position_bias=bias,
        rotary=tuple(
            Rotary(*(np.zeros((spec.max_tokens, spec.head_size // 2), np.int16) for _ in range(2)))
            for _ in range(spec.tables)
        )
        or None,
    )
