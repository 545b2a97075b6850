"""The whole top of the ULX3S in simulation: the programs of host/ on it, unchanged."""

from __future__ import annotations

import io
import json
import random
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cli.command import ToolError

import numpy as np
import pytest

import boards.host.classify
import boards.host.info
import boards.host.load
from boards import simulate
from boards.gateware.chip import Chip
from boards.host.board import ATTEND, ENDS, Board, InferenceError
from boards.host.link import RefusedError
from boards.protocol import Kind, Problem, Refusal
from boards.simulation.top import design_of
from boards.simulation.ulx3s import Simulated
from golden.encoder import run
from golden.identity import identity_of
from golden.random import random_model
from quant.foreign.tokenizer import TextTokenizer
from rtl.compile.image import CRC_AT, HEADER, read_image
from rtl.interface.operation import Error
from tests.boards.conftest import CHOICES, with_stand_in
from tests.boards.host.conftest import LABELS, SHAPE, image_for, sample_in, text
from tests.boards.stand_in import MANY, answer

Make = Callable[..., Simulated]
Talk = Callable[..., Board]

MEMORY = 1 << 25
LED_IN_USE = 4
CONFIG, LONGEST = CHOICES.config, CHOICES.longest
IMAGE = image_for(random_model(SHAPE, seed=5), CONFIG.lanes)


def right(board: Board, rng: random.Random) -> None:
    """Any words of tokens get the answer that they have with the image."""
    words = [rng.getrandbits(32) for _ in range(rng.randint(1, CONFIG.tokens))]
    reply = board.link.ask(Kind.RUN, struct.pack(f"<{len(words)}I", *words))
    assert list(struct.unpack("<3i", reply[4:])) == answer(IMAGE, words)


def several_run(board: Board, sequences: list[list[tuple[int, int]]]) -> list[int]:
    """The logits of sequences of (id, type) in one RUN."""
    words = [
        i | t << 24 | ATTEND | (place == len(pairs)) << 26
        for pairs in sequences
        for place, (i, t) in enumerate(pairs, 1)
    ]
    reply = board.link.ask(Kind.RUN, struct.pack(f"<{len(words)}I", *words))
    return list(struct.unpack(f"<{len(reply) // 4 - 1}i", reply[4:]))


def refused(board: Board, kind: int, payload: bytes) -> tuple[int, int]:
    with pytest.raises(RefusedError) as error:
        board.link.ask(kind, payload)
    return error.value.code, error.value.detail


def write(board: Board, at: int, data: bytes) -> None:
    board.link.ask(Kind.WRITE, struct.pack("<I", at) + data)


def test_an_image_is_loaded_and_sequences_are_answered(
    ulx3s: Make, talk: Talk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = ["--port", str(tmp_path / "tty")]
    (tmp_path / "model.img").write_bytes(IMAGE)
    simulated = ulx3s()
    assert boards.host.info.main([*port, "--json", str(tmp_path / "info.json")]) == 0
    info = json.loads((tmp_path / "info.json").read_text())
    limits = ("lanes", "tokens", "hidden", "ffn", "labels")
    assert {name: info[name] for name in limits} == {n: getattr(CONFIG, n) for n in limits}
    assert info["problem"] == "EMPTY"
    assert (info["memory_bytes"], info["kilohertz"]) == (MEMORY, 62_500)
    assert boards.host.load.main([str(tmp_path / "model.img"), *port]) == 0
    assert IMAGE[96:128].hex() in capsys.readouterr().out
    assert simulated.state["led"] & LED_IN_USE
    board, rng = talk(), random.Random(1)
    for _ in range(4):
        right(board, rng)
    words = [1 | ATTEND, 2 | 1 << 24 | ATTEND]
    (logits,) = board.run([([1, 2], [0, 1])], 3).logits
    assert [logits.tolist()] == [answer(IMAGE, words)]
    for lengths in ([17], [9, 8], [6, 6, 6]):
        with pytest.raises(InferenceError, match="error 6: more tokens") as error:
            board.run([(range(n), [0] * n) for n in lengths], 3)
        assert error.value.sequence == len(lengths) - 1
    for size in (CONFIG.tokens + 1, LONGEST // 4):
        words = [rng.getrandbits(32) for _ in range(size)]
        ends = sum(word >> 26 & 1 for word in words)
        failed = refused(board, Kind.RUN, struct.pack(f"<{size}I", *words))
        assert failed == (Refusal.INFERENCE, MANY | ends << 16)
    right(board, rng)


def test_the_flash_is_read_at_power_up(ulx3s: Make, talk: Talk, tmp_path: Path) -> None:
    """A sound image, a damaged one, one that would not fit, none."""
    damaged, large = bytearray(IMAGE), bytearray(IMAGE)
    damaged[HEADER.size + 40] ^= 4
    large[16:24] = (MEMORY + 2).to_bytes(8, "little")
    for data, problem in (
        (IMAGE, Problem.NONE),
        (bytes(damaged), Problem.STREAM),
        (bytes(large), Problem.EMPTY),
        (b"", Problem.EMPTY),
    ):
        (tmp_path / "flash").write_bytes(data)
        simulated = ulx3s(flash=tmp_path / "flash")
        board = talk()
        info = board.info()
        assert info.problem is problem
        assert info.digest == (IMAGE[96:128] if problem is Problem.NONE else bytes(32))
        if problem is Problem.NONE:
            right(board, random.Random(2))
            simulated.tell("reset")
            assert board.info().digest == info.digest
            right(board, random.Random(3))


def test_an_image_may_lie_in_the_memory_already(ulx3s: Make, talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "model.img").write_bytes(IMAGE)
    ulx3s(memory=tmp_path / "model.img")
    board = talk()
    assert board.info().digest == IMAGE[96:128]
    right(board, random.Random(7))


def header(image: bytes, at: int, fmt: str, value: int) -> bytes:
    """The header of an image that says something else in one place, with a right CRC."""
    changed = bytearray(image[: HEADER.size])
    struct.pack_into(fmt, changed, at, value)
    struct.pack_into("<I", changed, CRC_AT, 0)
    struct.pack_into("<I", changed, CRC_AT, zlib.crc32(changed))
    return bytes(changed)


def test_what_is_no_sound_image_is_refused(ulx3s: Make, talk: Talk) -> None:
    simulated, board = ulx3s(), talk()
    assert refused(board, Kind.RUN, bytes(4)) == (Refusal.IMAGE, Problem.EMPTY)
    assert refused(board, Kind.USE, b"") == (Refusal.IMAGE, Problem.HEADER)
    assert refused(board, Kind.RUN, bytes(4)) == (Refusal.IMAGE, Problem.HEADER)
    board.load(IMAGE)
    stream, stream_bytes, rows, rows_bytes = struct.unpack_from("<4Q", IMAGE, 24)
    parts = (
        (0, HEADER.size, Problem.HEADER),
        (stream, stream + stream_bytes, Problem.STREAM),
        (stream + stream_bytes, rows, Problem.STREAM),  # zeros
        (rows, rows + rows_bytes, Problem.ROWS),
    )
    for seed in range(16):
        rng = random.Random(seed)
        begin, end, problem = parts[seed % 4]
        at, bit = rng.choice((begin, end - 1, rng.randrange(begin, end))), rng.randrange(8)
        simulated.tell(f"flip {at} {bit}")
        assert refused(board, Kind.USE, b"") == (Refusal.IMAGE, problem), (at, bit)
        assert (board.info().model, board.info().digest) == (bytes(8), bytes(32))
        simulated.tell(f"flip {at} {bit}")
    board.link.ask(Kind.USE)
    for at, fmt, value, problem in (
        (8, "<H", 1, Problem.HEADER),
        (10, "<H", 64, Problem.HEADER),
        (72, "<B", 8, Problem.LANES),
        (73, "<B", 99, Problem.LANES),
        (16, "<Q", MEMORY + 2, Problem.SIZE),
        (16, "<Q", rows + rows_bytes - 1, Problem.SIZE),
        (24, "<Q", 1 << 32 | stream, Problem.SIZE),
        (24, "<Q", stream + 1, Problem.SIZE),
        (32, "<Q", 0, Problem.SIZE),
        (32, "<Q", (1 << 32) - 2, Problem.SIZE),
        (40, "<Q", len(IMAGE), Problem.SIZE),
        (48, "<Q", rows_bytes + 2, Problem.SIZE),
        (48, "<Q", 0, Problem.SIZE),
        (32, "<Q", rows - stream + 2, Problem.SIZE),
        (40, "<Q", stream, Problem.SIZE),
        (64, "<I", 1, Problem.STREAM),
        (68, "<I", 1, Problem.ROWS),
    ):
        write(board, 0, header(IMAGE, at, fmt, value))
        assert refused(board, Kind.USE, b"") == (Refusal.IMAGE, problem), (at, value)
    write(board, 0, IMAGE[: HEADER.size])
    # Nobody has looked at it since it was written.
    assert refused(board, Kind.RUN, bytes(4)) == (Refusal.IMAGE, Problem.EMPTY)
    board.link.ask(Kind.USE)
    right(board, random.Random(4))


def test_the_board_says_which_model_it_has(ulx3s: Make, talk: Talk) -> None:
    """As its stream says; rows of another model, under right sums, are refused."""
    ulx3s()
    board, model = talk(), random_model(SHAPE, seed=6)
    assert board.info().model == bytes(8)
    for one in (random_model(SHAPE, seed=5), model):
        board.load(image_for(one, CONFIG.lanes))
        assert board.info().model == identity_of(one)
    image = image_for(model, CONFIG.lanes)
    (rows,) = struct.unpack_from("<Q", image, 40)
    others = read_image(IMAGE).rows
    assert len(others) == len(image) - rows
    for crc in (zlib.crc32(image[rows:]), zlib.crc32(others)):
        board.link.ask(Kind.USE)
        write(board, 0, header(image, 68, "<I", crc))
        for at in range(0, len(others), HEADER.size):
            write(board, rows + at, others[at : at + HEADER.size])
        assert refused(board, Kind.USE, b"") == (Refusal.IMAGE, Problem.ROWS)
        assert refused(board, Kind.RUN, bytes(4)) == (Refusal.IMAGE, Problem.ROWS)
        assert board.info().model == bytes(8)
        board.load(image)


def expected(kind: int, payload: bytes) -> tuple[int, int] | None:
    """The refusal that the table of docs/fpga.md has for a request, without an image."""
    length = len(payload)
    if kind not in (1, 2, 3, 4):
        return Refusal.KIND, kind
    if (kind in (1, 3) and length) or (kind == 2 and (length <= 4 or length % 8 != 4)):
        return Refusal.LENGTH, length
    if kind == 4 and (length == 0 or length % 4):
        return Refusal.LENGTH, length
    if kind == 2:
        at = int.from_bytes(payload[:4], "little")
        bad = at % 8 or at + length - 4 > MEMORY
        return (Refusal.ADDRESS, at) if bad else None
    return (Refusal.IMAGE, Problem.EMPTY) if kind == 4 else None


def test_any_request_is_answered_as_the_protocol_says(ulx3s: Make, talk: Talk) -> None:
    ulx3s()
    board, rng = talk(), random.Random(11)
    for _ in range(60):
        kind = rng.choice((1, 2, 2, 2, 4, rng.randrange(0x7F)))
        length = rng.choice((0, 1, 3, 4, 8, 12, 12, 20, LONGEST, rng.randrange(LONGEST)))
        payload = rng.randbytes(length)
        if kind == 2 and length >= 4:
            at = rng.choice((0, 8, MEMORY - 8, MEMORY - 16, MEMORY, rng.randrange(1 << 32)))
            payload = struct.pack("<I", at) + payload[4:]
        if kind == 3:
            continue
        if (refusal := expected(kind, payload)) is None:
            board.link.ask(kind, payload)
        else:
            assert refused(board, kind, payload) == refusal, (kind, length)


@pytest.mark.slow
def test_noise_on_the_line_is_survived(ulx3s: Make, talk: Talk) -> None:
    """Any levels towards the board, any bytes towards the host."""
    simulated = ulx3s()
    board = talk(seconds=0.5)
    board.load(IMAGE)
    for seed in range(12):
        rng = random.Random(seed)
        simulated.tell(f"noise {rng.choice((1, 40, 500, 20_000))} {seed}")
        simulated.tell(f"chatter {rng.choice((1, 30, 300))} {seed}")
        right(board, rng)


@pytest.mark.slow
def test_unplugging_and_a_reset_while_an_image_comes_are_survived(ulx3s: Make, talk: Talk) -> None:
    simulated = ulx3s()
    board = talk(seconds=1.0)
    for command in ("unplug 200", "reset"):
        half = threading.Event()

        def told(done: int, half: threading.Event = half) -> None:
            if done > len(IMAGE) // 2:
                half.set()

        def strike(command: str = command, half: threading.Event = half) -> None:
            half.wait(60)
            simulated.tell(command)

        thread = threading.Thread(target=strike)
        thread.start()
        loads = board.load(IMAGE, told)
        thread.join()
        assert loads == 1 + (command == "reset")
        right(board, random.Random(5))
    assert board.link.reconnections == 1
    simulated.tell("unplug 100")
    time.sleep(0.2)
    right(board, random.Random(6))


@pytest.mark.parametrize(
    ("chip", "code", "why"),
    [
        (CHOICES.chip, 0, ""),
        (Chip(rcd=60), 1, "error: the chips complain: tRCD"),
    ],
)
def test_the_command_shows_a_board_and_what_its_chips_complain_of(
    chip: Chip,
    code: int,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same Verilog with the chip that it was made for, and with a slower one."""
    monkeypatch.setattr(simulate, "choices", lambda config: replace(CHOICES, chip=chip))
    monkeypatch.setattr(simulate, "Simulated", with_stand_in)
    monkeypatch.setattr("sys.stdin", io.StringIO("state\nnonsense\nquit\n"))
    port = tmp_path / "tty"
    assert simulate.main(["--lanes", "4", "--empty", "--port", str(port)]) == code
    shown, error = capsys.readouterr()
    lines = shown.splitlines()
    assert lines[0].startswith(f"a board with 4 lanes at {port} (/dev/")
    assert lines[-2].startswith("{'cycles': ")
    assert lines[-1].startswith("not understood; there are: reset, unplug MILLISECONDS, ")
    assert error.splitlines()[-1].startswith(why)
    assert not port.exists()


def test_a_model_that_the_memory_has_no_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = sample_in(tmp_path)
    monkeypatch.setattr(simulate, "IMAGES", tmp_path)
    small = replace(CHOICES, chip=Chip(row_bits=1, column_bits=7))
    monkeypatch.setattr(simulate, "choices", lambda config: small)
    monkeypatch.setattr(simulate, "Simulated", with_stand_in)
    assert simulate.main(["--lanes", "4", "--quantized", str(sample.quantized)]) == 2
    size = (tmp_path / f"{sample.quantized.name}-4.img").stat().st_size
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: the image of {sample.quantized} has {size:,} bytes, the board's memory 2,048: "
        "take a smaller model"
    )


def test_a_port_that_cannot_be_made_is_refused(ulx3s: Make, tmp_path: Path) -> None:
    ulx3s()
    with pytest.raises(ValueError, match="tty is there already: end the board that has it"):
        with_stand_in(CHOICES, tmp_path / "tty").__enter__()
    with pytest.raises(ToolError, match=r"has ended: no pseudo-terminal at .*: File name too long"):
        with_stand_in(CHOICES, tmp_path / ("x" * 254)).__enter__()


@pytest.mark.slow
def test_texts_get_the_answers_of_golden(
    ulx3s: Make, talk: Talk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The accelerator itself: several sequences, texts, a damaged stream, a reset."""
    sample = sample_in(tmp_path)
    simulated = ulx3s(design=design_of(CHOICES))
    port = ["--port", str(tmp_path / "tty")]
    model = ["--quantized", str(sample.quantized)]
    answered = tmp_path / "answer.json"

    def classified(text: str) -> list[int]:
        arguments = [text, *port, *model, "--json", str(answered)]
        assert boards.host.classify.main(arguments) == 0, capsys.readouterr()
        logits = json.loads(answered.read_text())["integer_logits"]
        return [logits[label] for label in LABELS]

    def golden(text: str) -> list[int]:
        tokens = TextTokenizer(sample.quantized).encode(text, limit=14)
        words = zip(tokens.ids.tolist(), tokens.types.tolist(), [1] * len(tokens.ids))
        answer = sample.runs(list(words))
        assert isinstance(answer, list)
        return answer

    assert boards.host.load.main([str(sample.image), *port]) == 0
    several = [[(2, 0), (5, 0), (3, 0)], [(2, 1), (8, 1), (9, 1), (5, 0), (3, 0)], [(7, 0)]]
    board = talk()
    assert several_run(board, several) == [
        logit for pairs in several for logit in run(sample.model, *np.array(pairs).T).tolist()
    ]
    keyless = [2 | ATTEND, 3 | ATTEND | ENDS, 2, 3 | ENDS, 4 | ATTEND]
    failed = refused(board, Kind.RUN, struct.pack("<5I", *keyless))
    assert failed == (Refusal.INFERENCE, Error.NO_KEY | 1 << 16)
    board.link.close()
    rng = random.Random(1)
    texts = [text(rng) for _ in range(12)]
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"{one}\n" for one in texts))
    data = ["--data", str(tmp_path / "texts.csv"), "--json", str(answered)]
    assert boards.host.classify.main([*data, *port, *model]) == 0
    found = json.loads(answered.read_text())
    assert [[a["integer_logits"][label] for label in LABELS] for a in found["answers"]] == [
        golden(one) for one in texts
    ]
    assert max(len(batch["places"]) for batch in found["batches"]) > 1
    for words in ("the film was good !", "bad", "not a good film was the film not bad , good !"):
        assert classified(words) == golden(words)
    simulated.tell(f"flip {HEADER.size + 200} 3")
    assert boards.host.classify.main(["bad", *port, *model]) == 2
    assert "error 2: the stream in memory is damaged" in capsys.readouterr().err
    simulated.tell("reset")
    assert boards.host.classify.main(["bad", *port, *model]) == 2
    assert "none was loaded" in capsys.readouterr().err
    assert boards.host.load.main([str(sample.image), *port]) == 0
    assert classified("the film") == golden("the film")
