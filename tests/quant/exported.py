"""The C export, compiled and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from golden import encoder
from golden.model import Linear, Model, Shape
from golden.random import random_model

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
STRICT = ("-std=c99", *WARNINGS)
CHECKED = ("-O3", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]

MECHANISMS = {
    12: ("rotary",),
    13: ("gated", "rms", "head_norm"),
    14: ("gated", "head_norm"),
    15: ("rotary", "gated", "bare"),
    16: ("rotary", "gated", "rms", "shared"),
    17: ("rms", "shared"),
    18: ("gated", "shared", "head_norm"),
    19: ("rotary", "gated", "rms", "shared", "head_norm"),
    20: ("rotary", "gated", "rms"),
    21: ("rotary", "gated", "shared"),
    22: ("rotary", "shared"),
    23: ("rms", "bare"),
}
"""What `random_structure` has by its seed; "shared": several heads of Q have one of K and V;
"bare": layer 0 is without norm1."""

SEEDS = sorted(range(24), key=lambda seed: seed not in (0, 19))
"""Of `random_structure`. The second has all mechanisms, wide operands and windows."""

Text = tuple[Sequence[int], Sequence[int]]  # ids, types


def build(sources: Mapping[str, str], directory: Path, *flags: str, compiler: str = "gcc") -> Path:
    """The program made of all .c files among the sources."""
    directory.mkdir(exist_ok=True)
    for name, text in sources.items():
        directory.joinpath(name).write_text(text)
    program = directory / "program"
    files = sorted(name for name in sources if name.endswith(".c"))
    command = [compiler, *STRICT, *flags, "-o", str(program), *files]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return program


def answers(program: Path, texts: Iterable[Text]) -> list[list[int]]:
    """The logits that main.c prints."""
    lines = (" ".join(f"{i}:{t}" for i, t in zip(*text)) for text in texts)
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def expected(model: Model, texts: Iterable[Text]) -> list[list[int]]:
    """Golden's logits."""
    return [encoder.run(model, *text).tolist() for text in texts]


def random_texts(shape: Shape, seed: int, count: int) -> Iterator[Text]:
    """One token, all that there may be, then any number."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        length = [1, shape.tokens, int(rng.integers(1, shape.tokens + 1))][min(i, 2)]
        types = rng.integers(0, max(shape.types, 1), length)
        yield rng.integers(0, shape.vocabulary, length).tolist(), types.tolist()


def accumulators(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """acc, m and s to requantize: acc of every magnitude, half of them next to a tie."""
    m = rng.integers(1 << 15, 1 << 16, count)
    m[: count // 100], m[-count // 100 :] = 1 << 15, (1 << 16) - 1
    s = rng.integers(1, 48, count)
    acc = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 31, count)
    tie = ((rng.integers(-40_000, 40_000, count) * 2 + 1) << (s - 1)) // m
    tie = np.clip(tie, -(1 << 31), (1 << 31) - 1)
    return np.where(rng.random(count) < 0.5, tie, acc), m, s


def variances(rng: np.random.Generator, count: int) -> np.ndarray:
    """v of rsqrt: every magnitude, and both ends of each octave."""
    v = np.maximum(rng.integers(1, 1 << 52, count) >> rng.integers(0, 52, count), 1)
    return np.concatenate([v, 1 << np.arange(52), (1 << np.arange(1, 53)) - 1])


def random_shape(seed: int) -> Shape:
    """Any small structure that a model may have."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    norm = "pre" if seed % 2 else "post"
    positions = draw(2, 24)
    layers, hidden, heads, head_size = draw(1, 3), draw(1, 24), draw(1, 4), draw(1, 9)
    own = MECHANISMS.get(seed, ())
    return Shape(
        layers=layers,
        hidden=hidden,
        heads=heads << ("shared" in own),
        head_size=head_size << ("rotary" in own),
        kv_heads=heads if "shared" in own else None,
        ffn=draw(1, 40),
        labels=draw(1, 5),
        vocabulary=draw(1, 300),
        positions=positions,
        types=seed % 3,
        position_offset=draw(0, positions - 1) if seed % 4 > 1 else 0,
        norm="pre" if norm == "pre" else "post",
        embedding_norm=norm == "post" or bool(draw(0, 1)),
        pooling="none" if seed % 5 == 4 else "mean" if draw(0, 1) else "first",
    )


def with_head(model: Model, hidden: int) -> Sequence[Linear]:
    """A head of `hidden` layers before the logits, cut out of that of a random model.

    Every second one is narrower and has no activation.
    """
    square, logits = model.head
    assert square.m is not None
    assert square.s is not None
    layers: list[Linear] = []
    columns = model.shape.hidden
    for i in range(hidden):
        rows = max(1, model.shape.hidden // 2) if i % 2 else model.shape.hidden
        layers.append(
            Linear(
                square.weight[:rows, :columns].copy(),
                square.bias[:rows],
                square.m[:rows],
                square.s[:rows],
                None if i % 2 else square.table,
            )
        )
        columns = rows
    return (*layers, Linear(logits.weight[:, :columns].copy(), logits.bias))


def random_structure(seed: int) -> Model:
    """A random model of a random shape, with none to three hidden layers in its head.

    Every second one whose norm takes it has a factorised embedding; from 6 on of every twelve
    operands are wide. Two of three have a position bias, every second from the third on windows.
    From 12 on they have MECHANISMS, and no position bias where heads share K and V.
    """
    shape = random_shape(seed)
    size = 1 + seed % shape.hidden if seed % 4 == 2 else 0
    options = {"precise": seed % 12 >= 6, "biased": seed % 3 > 0, "windowed": seed % 4 > 1}
    own = set(MECHANISMS.get(seed, ()))
    options |= dict.fromkeys(own - {"shared", "bare"}, True) | {"first_norm": "bare" not in own}
    model = random_model(shape, seed, size, **options)
    if model.head_norm is not None:
        return model
    return replace(model, head=tuple(with_head(model, seed % 4)))
