# amaranth: UnusedElaboratable=no
"""Frames in gateware against `boards.protocol`, on lines with anything else on them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.sim import Simulator, SimulatorContext

from boards.gateware.frames import FrameReceiver, FrameSender
from boards.protocol import Damaged, Decoder, Frame, encode
from tests.boards.host.pretended import stuffed
from tests.damage import faulty

LONGEST = 64
SPECIAL = bytes([0x7E, 0x7D, 0x5E, 0x5D, 0, 0xFF])


def drawn(rng: random.Random, longest: int = LONGEST) -> Frame:
    length = rng.choice([0, 4, 12, longest, longest - 4, rng.randrange(longest + 1)])
    alphabet = rng.choice([SPECIAL, bytes(range(256))])
    payload = bytes(rng.choice(alphabet) for _ in range(length))
    return Frame(rng.randrange(256), rng.randrange(256), payload)


def line_of(rng: random.Random) -> bytes:
    """Frames, some of them spoiled, with noise between them."""
    line = b""
    for _ in range(6):
        frame = drawn(rng)
        data = encode(frame.kind, frame.number, frame.payload)
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            changed = bytes([data[at] ^ 1 << rng.randrange(8)])
            data = data[:at] + rng.choice([b"", data[at : at + 1] * 2, changed]) + data[at + 1 :]
        line += data
        if rng.random() < 0.3:
            line += rng.randbytes(rng.choice([1, 2, 9, 100]))
    return line + b"\x7e"


def nearly() -> bytes:
    """What is no frame for one reason alone, and a frame between any two."""
    body = bytes([1, 2, 9, 0]) + bytes(8)
    other_length = stuffed(body)
    too_long = encode(3, 4, bytes(range(LONGEST + 4)))
    much_too_long = encode(3, 4, bytes(range(200)))
    ends_escaped = encode(5, 6, b"abcd")[:-1] + b"\x7d\x7e"
    other_crc = encode(5, 6, b"abcd").replace(b"c", b"C")
    good = encode(7, 8, b"\x7e\x7d\x00\xff")
    parts = [other_length, too_long, much_too_long, ends_escaped, other_crc]
    return b"".join(part + good for part in parts)


def received(unit: Any, line: bytes, gap: int, hold: int = 0) -> list[Frame | None]:
    """What the receiver makes of a line; None where it says that something was damaged.

    gap
        Cycles from byte to byte.
    hold
        Cycles for which a frame is held; each word of its payload is read meanwhile.
    """
    found: list[Frame | None] = []

    async def bench(ctx: SimulatorContext) -> None:
        async def tick() -> None:
            await ctx.tick()
            if ctx.get(unit.damaged):
                found.append(None)

        async def taken() -> None:
            length = ctx.get(unit.head.length)
            words = []
            for address in range(-(-length // 4)):
                ctx.set(unit.payload.address, address)
                await tick()
                await tick()
                words.append(ctx.get(unit.payload.data).to_bytes(4, "little"))
            kind, number = ctx.get(unit.head.kind), ctx.get(unit.head.number)
            found.append(Frame(kind, number, b"".join(words)[:length]))
            ctx.set(unit.release, 1)
            await tick()
            ctx.set(unit.release, 0)

        held = 0
        for byte in line:
            ctx.set(unit.valid, 1)
            ctx.set(unit.data, byte)
            await tick()
            ctx.set(unit.valid, 0)
            for _ in range(gap):
                await tick()
            held = held + 1 if ctx.get(unit.held) else 0
            if held > hold:
                await taken()
                held = 0
        for _ in range(3):
            await tick()

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return found


def expected(line: bytes) -> list[Frame | None]:
    """Payloads that are no whole words keep their length, but not the bytes of the last word."""
    return [None if isinstance(f, Damaged) else f for f in Decoder(LONGEST).feed(line)]


def whole(frames: list[Frame | None]) -> list[Frame | None]:
    """Without the bytes of a word that is not whole: they are not kept."""
    return [
        f
        and Frame(
            f.kind, f.number, f.payload[: len(f.payload) // 4 * 4] + bytes(len(f.payload) % 4)
        )
        for f in frames
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_receiver_finds_what_the_decoder_finds(seed: int) -> None:
    line = nearly() + line_of(random.Random(seed))
    found = received(FrameReceiver(LONGEST), line, gap=seed % 3 + 1)
    assert whole(found) == whole(expected(line))
    assert any(found)


def test_what_comes_while_a_frame_is_held_is_dropped() -> None:
    """Of the second frame a part is lost, so it is neither a frame nor damage; the third comes."""
    frames = [Frame(1, n, bytes(8)) for n in range(3)]
    line = b"".join(encode(f.kind, f.number, f.payload) for f in frames)
    found = received(FrameReceiver(LONGEST), line + b"\x7e" * 12, gap=1, hold=10)
    assert found == [frames[0], frames[2]]


FAULTS = [
    ("crc.good & (count", "(count"),
    ("(count == self.head.length + AROUND)", "1"),
    ("Mux(escaped, self.data ^ INVERT, self.data)", "self.data"),
    ("~escaped & ~over", "1"),
    ("[count.eq(0), escaped.eq(0), over.eq(0), dropped.eq(0)]", "[count.eq(0), escaped.eq(0)]"),
    ("begin.eq(ends | self.release)", "begin.eq(self.release)"),
    ("memory.write.address.eq((count >> 2) - 1)", "memory.write.address.eq(count >> 2)"),
    ("(escaped | ~escape)),", "1),"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_a_fault_of_the_receiver_is_seen(old: str, new: str) -> None:
    line, module = nearly(), faulty("boards/gateware/frames", (old, new))
    found = received(module.FrameReceiver(LONGEST), line, gap=1)
    assert whole(found) != whole(expected(line))


def sent(unit: Any, frames: list[Frame], pause: float, seed: int = 0) -> bytes:
    """The line that the sender makes of frames."""
    rng = random.Random(seed)
    line = bytearray()

    async def heads(ctx: SimulatorContext) -> None:
        for frame in frames:
            head = {"kind": frame.kind, "number": frame.number, "length": len(frame.payload)}
            ctx.set(unit.i.payload, head)
            ctx.set(unit.i.valid, 1)
            while not (await ctx.tick().sample(unit.i.ready))[2]:
                pass
            ctx.set(unit.i.valid, 0)

    async def payloads(ctx: SimulatorContext) -> None:
        for byte in b"".join(frame.payload for frame in frames):
            while rng.random() < pause:
                await ctx.tick()
            ctx.set(unit.payload.payload, byte)
            ctx.set(unit.payload.valid, 1)
            while not (await ctx.tick().sample(unit.payload.ready))[2]:
                pass
            ctx.set(unit.payload.valid, 0)

    async def takes(ctx: SimulatorContext) -> None:
        silent = 0
        while silent < 60:
            ready = rng.random() >= pause
            ctx.set(unit.o.ready, ready)
            _, _, valid, byte = await ctx.tick().sample(unit.o.valid, unit.o.payload)
            silent = 0 if valid else silent + 1
            if valid and ready:
                line.append(byte)

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(heads, background=True)
    sim.add_testbench(payloads, background=True)
    sim.add_testbench(takes)
    sim.run()
    return bytes(line)


@pytest.mark.parametrize(("seed", "pause"), [(1, 0.0), (2, 0.4)])
def test_the_sender_writes_what_the_encoder_writes(seed: int, pause: float) -> None:
    rng = random.Random(seed)
    frames = [drawn(rng) for _ in range(5)]
    right = b"".join(encode(f.kind, f.number, f.payload) for f in frames)
    assert sent(FrameSender(), frames, pause, seed) == right


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(escaped | ~special)),", "1),"),
        ("crc.eq(~crc)", "crc.eq(crc)"),
        ("~left[:2]", "left[:2]"),
        ("m.d.sync += escaped.eq(special & ~escaped)", "pass"),
        ("[crc.eq(0xFFFFFFFF), left", "[left"),
    ],
)
def test_a_fault_of_the_sender_is_seen(old: str, new: str) -> None:
    rng = random.Random(1)
    frames = [drawn(rng) for _ in range(4)]
    right = b"".join(encode(f.kind, f.number, f.payload) for f in frames)
    unit = faulty("boards/gateware/frames", (old, new)).FrameSender()
    assert sent_or_stuck(unit, frames, len(right)) != right


def sent_or_stuck(unit: Any, frames: list[Frame], most: int) -> bytes:
    """As `sent`, but of a sender that may never end."""
    line = bytearray()
    payload = b"".join(frame.payload for frame in frames)

    async def bench(ctx: SimulatorContext) -> None:
        place = given = 0
        ctx.set(unit.o.ready, 1)
        for _ in range(3 * most + 50):
            frame = frames[min(place, len(frames) - 1)]
            head = {"kind": frame.kind, "number": frame.number, "length": len(frame.payload)}
            ctx.set(unit.i.payload, head)
            ctx.set(unit.i.valid, place < len(frames))
            ctx.set(unit.payload.payload, payload[min(given, len(payload) - 1)])
            ctx.set(unit.payload.valid, given < len(payload))
            _, _, took, takes, valid, byte = await ctx.tick().sample(
                unit.i.ready, unit.payload.ready, unit.o.valid, unit.o.payload
            )
            place += took and place < len(frames)
            given += takes and given < len(payload)
            if valid:
                line.append(byte)

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return bytes(line)


@pytest.mark.parametrize("longest", [0, -4, 6])
def test_a_length_that_is_no_whole_words_is_refused(longest: int) -> None:
    with pytest.raises(ValueError, match=f"longest is {longest}: it must be a multiple of 4"):
        FrameReceiver(longest)
