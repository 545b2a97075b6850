"""The host program behind LiteX's own server and client, on a SoC that answers by golden."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("litex")

from litedram.init import get_sdram_phy_py_header
from litedram.phy.model import get_sdram_phy_settings
from litex.tools.litex_server import RemoteServer

from boards import host
from driver import bert2rtl as driver
from golden.encoder import run as golden
from golden.model import Model
from golden.random import random_model
from golden.store import save
from quant.quantized_model import QuantizedModel
from rtl.compile.image import HEADER, image_bytes
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import Config
from tests import zoo
from tests.ending import exit_code
from tests.quant.tiny import info_of

# LiteX's client leaves csr.csv open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad", "not", "a", "!")
SHAPE = zoo.shape("no-pooler", labels=3, vocabulary=len(WORDS), positions=14, position_offset=0)
CONFIG = Config(lanes=4)
RAM, BASE, CSR, BYTES = 0x4000_0000, 0x9000_0000, 0x1800, 1 << 16
DFII = ("control", "pi0_command", "pi0_command_issue", "pi0_address", "pi0_baddress")
NAMES = {offset: name for name, offset in driver.REGISTERS.items()}


def write_sample(folder: Path, seed: int = 5, lanes: int = 4) -> Model:
    """A model as calibration leaves it, in folder/model, and its image, folder/model.img."""
    model = random_model(SHAPE, seed)
    save(model, folder / "model", info_of(SHAPE, folder / "model", WORDS))
    image = image_bytes(image_of(model, compile_model(model, Config(lanes=lanes))))
    (folder / "model.img").write_bytes(image)
    return model


class Soc:
    """What litex_server finds at the other end of the line: memory, its controller, accelerator.

    hurt is an address whose words arrive with another bit; a dead SoC answers nothing.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.memory, self.hurt, self.dead = model, bytearray(BYTES), -1, False
        self.words: list[int] = []
        self.waiting: list[int] = []
        self.commands: list[int] = []
        self.dfii = dict.fromkeys(DFII, 0) | {"control": 1}
        self.registers = {"id": driver.ID, "version": driver.VERSION, "token_room": 512}
        limits = CONFIG.as_dict() | {"columns": CONFIG.tile_columns}
        self.registers |= {name: limits[name] for name in driver.LIMITS}

    def open(self) -> None: ...

    @property
    def ready(self) -> bool:
        """Whether the memory was given its mode, and is the controller's again."""
        return 0b111 in self.commands and bool(self.dfii["control"] & 1)

    def write(self, address: int, words: list[int]) -> None:
        for place, word in enumerate(words):
            self.write_word(address + 4 * place, word)

    def write_word(self, address: int, word: int) -> None:
        word ^= address == self.hurt
        if address >= BASE:
            self.write_register(NAMES[address - BASE], word)
        elif address >= RAM:
            if self.ready:
                self.memory[address - RAM : address - RAM + 4] = word.to_bytes(4, "little")
        else:
            name = DFII[(address - CSR) // 4]
            self.dfii[name] = word
            if name == "pi0_command_issue" and self.dfii["control"] & 2:
                self.commands.append(self.dfii["pi0_command"] >> 1)

    def write_register(self, name: str, word: int) -> None:
        if name.startswith("token"):
            self.words.append(word)
        if name == "control" and word == driver.START:
            ends = [
                i + 1 for i, w in enumerate(self.words) if w >> 26 & 1 or self.words[i + 1 :] == []
            ]
            for begin, end in zip([0, *ends], ends):
                part = np.array(self.words[begin:end])
                logits = golden(self.model, part & 0xFFFFFF, part >> 24 & 1, part >> 25 & 1)
                self.waiting += [int(x) for x in np.ravel(logits)]
            self.words.clear()
            self.registers |= {"status": driver.DONE, "cycles": 1234}

    def read(self, address: int, count: int, burst: str) -> list[int]:
        while self.dead:
            time.sleep(0.1)
        step = 4 * (burst == "incr")
        return [self.read_word(address + step * place) for place in range(count)]

    def read_word(self, address: int) -> int:
        if address < BASE:
            return int.from_bytes(self.memory[address - RAM : address - RAM + 4], "little")
        name = NAMES[address - BASE]
        if name == "logits_waiting":
            return len(self.waiting)
        return (self.waiting.pop(0) if name == "logit" else self.registers.get(name, 0)) % (1 << 32)


@pytest.fixture
def soc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Soc]:
    """A sample in tmp_path with the project of a board, and its SoC behind a server."""
    project = tmp_path / "board"
    project.mkdir()
    lines = [f"csr_register,sdram_dfii_{n},{CSR + 4 * i:#x},1,rw" for i, n in enumerate(DFII)]
    lines += [
        "constant,config_csr_data_width,32,,",
        "constant,config_bus_address_width,32,,",
        "constant,config_clock_frequency,62500000,,",
    ]
    lines += [f"memory_region,main_ram,{RAM:#x},{BYTES},cached"]
    lines += [f"memory_region,accelerator,{BASE:#x},4096,io"]
    (project / "csr.csv").write_text("\n".join(lines))
    settings = get_sdram_phy_settings("SDR", 16, 62.5e6)
    (project / "sdram_init.py").write_text(get_sdram_phy_py_header(settings, None))
    monkeypatch.setattr(host, "BUILD", tmp_path)
    soc = Soc(write_sample(tmp_path))
    server = RemoteServer(soc, "127.0.0.1", free_port())
    server.open()

    def serve() -> None:
        with suppress(OSError):  # when the socket is closed
            server._serve_thread()

    threading.Thread(target=serve, daemon=True).start()
    soc.port = server.bind_port
    yield soc
    soc.dead = False
    server.socket.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def words_of(folder: Path, soc: Soc, *words: str) -> list[str]:
    common = ["--board", "board", "--quantized", str(folder / "model"), "--timeout", "1"]
    common += ["--image", str(folder / "model.img"), "--server", f"127.0.0.1:{soc.port}"]
    return [*common, *words]


def logits_of(soc: Soc, folder: Path, text: str) -> list[int]:
    its = QuantizedModel.load(folder / "model", None, floats=False).reader
    tokens = its.encode(text, limit=SHAPE.positions)
    return [int(x) for x in np.ravel(golden(soc.model, tokens.ids, tokens.types))]


def test_a_text(soc: Soc, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The memory is initialised, the image loaded once, the answer golden's."""
    for commands in (7, 7):
        assert host.main(words_of(tmp_path, soc, "the film was good !")) == 0
        out = capsys.readouterr().out
        for label, logit in enumerate(logits_of(soc, tmp_path, "the film was good !")):
            assert re.search(rf"^integer logits {label} +{logit:,}$", out, re.MULTILINE)
        assert "from 7 tokens" in out
        assert "1,234 clock cycles, 0.020 ms on the board" in out
        assert len(soc.commands) <= commands
    image = (tmp_path / "model.img").read_bytes()
    assert bytes(soc.memory[: len(image)]) == image


def test_many_texts(soc: Soc, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the film was good", "not " * 40, "bad", "a bad film was not good !"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    assert host.main(words_of(tmp_path, soc, "--data", str(tmp_path / "texts.txt"))) == 0
    out, error = capsys.readouterr()
    assert "warning: text 2 is cut after 14 tokens, 28 more are not read\n" in error
    answers = [line.split()[0] for line in out.splitlines() if line.startswith(("0", "1", "2"))]
    assert answers == [str(np.argmax(logits_of(soc, tmp_path, text))) for text in texts]
    assert "4 texts in " in out


REFUSALS: dict[str, tuple[int, str]] = {
    "no server": (3, "no litex_server at 127.0.0.1:"),
    "dead": (3, "the board does not answer: is it on, is this its bitstream, and has litex_server"),
    "another board": (3, "no bert2rtl accelerator: its id is 0x00000000"),
    "other lanes": (3, "is for 4 lanes and 4 columns, the accelerator has 8 and 4"),
    "another model": (2, "model.img holds model "),
    "damaged": (2, "--image "),
    "no memory": (3, "the board's memory does not hold what is written: LiteX's BIOS trains DDR"),
    "lost": (3, "the image did not arrive: 0x"),
    "too large": (3, "bytes, the board's memory 4,096: choose a smaller model"),
    "no project": (2, "csr.csv is missing: write the board's project with python -m boards"),
    "two inputs": (2, "give a text, or a file of texts with --data: one of the two"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str, soc: Soc, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, image = words_of(tmp_path, soc, "good"), tmp_path / "model.img"
    csr = tmp_path / "board" / "csr.csv"
    match name:
        case "no server":
            words[-2] = f"127.0.0.1:{free_port()}"
        case "dead":
            soc.dead = True
        case "another board":
            soc.registers["id"] = 0
        case "other lanes":
            soc.registers["lanes"] = 8
        case "another model":
            write_sample(tmp_path / "other", seed=6)
            image.write_bytes((tmp_path / "other" / "model.img").read_bytes())
        case "damaged":
            data = bytearray(image.read_bytes())
            data[200] ^= 1
            image.write_bytes(data)
        case "no memory":
            soc.hurt = RAM + BYTES - 4
        case "lost":
            soc.hurt = RAM + HEADER.size + 4 * (host.CHUNK - 1)
        case "too large":
            csr.write_text(csr.read_text().replace(str(BYTES), "4096"))
        case "no project":
            csr.unlink()
        case "two inputs":
            words += ["--data", str(csr)]
    code, message = REFUSALS[name]
    assert exit_code(host.main, words) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
