"""Choices, clocks and pins of the board, and how its bitstream is judged and brought there."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from cli.command import Different

import pytest

from boards import bitstream, program
from boards.bitstream import slowest, used
from boards.gateware.pll import Dividers
from boards.gateware.system import Choices
from boards.gateware.ulx3s import PINS
from golden.random import random_model
from rtl.interface.config import Config
from tests.boards.host.conftest import SHAPE, image_for

LPF = Path(bitstream.PINS).read_text()


@pytest.mark.parametrize("megahertz", [50, 62.5, 75, 80, 100])
def test_the_dividers_make_the_clock(megahertz: float) -> None:
    """By the data sheet: CLKOP is fed back, the VCO has 400 to 800 MHz."""
    found = Dividers.of(25, megahertz)
    assert 25 / found.reference * found.feedback == megahertz
    assert 400 <= megahertz * found.output <= 800
    assert 25 / found.reference >= 3.125


def test_a_quarter_of_a_period() -> None:
    # 10 VCO periods of 8 steps: 90 degrees are 20 steps; no shift is CPHASE 9, as CLKOP has it.
    assert Dividers.of(25, 62.5).shift(0) == (9, 0)
    assert Dividers.of(25, 62.5).shift(90) == (11, 4)


def test_a_clock_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the clock is 66.67 MHz: the PLL cannot make that of 25"):
        Dividers.of(25, 66.67)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"longest": 1030}, "longest is 1030: it must be 4 above a multiple of 8, in 12..1028"),
        ({"longest": 4}, "longest is 4: it must be 4 above a multiple of 8, in 12..1028"),
        (
            {"baud": 3_906_250},
            "longest is 1028: a WRITE of it takes 576 cycles, a byte at 3906250 baud "
            "only 160: take less",
        ),
        (
            {"config": Config(labels=1024)},
            "labels is 1024: a reply has room for 1023 of each of 16 sequences",
        ),
        ({"megahertz": float("nan")}, "the SDRAM's clock is nan MHz: it must lie in 1..133.333"),
        ({"megahertz": float("inf")}, "the SDRAM's clock is inf MHz: it must lie in 1..133.333"),
        ({"megahertz": 0.0}, "the SDRAM's clock is 0 MHz: it must lie in 1..133.333"),
        ({"baud": 10_000_000}, "10000000 baud are too many for 62.5 MHz: 3906250 at most"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Choices(**fields)
    assert str(refused.value) == message


def test_every_pin_has_one_place() -> None:
    places = dict(re.findall(r'^LOCATE COMP "(\S+)" SITE "(\w+)";$', LPF, re.MULTILINE))
    ports = [
        f"{name}[{i}]" if width > 1 else name for name, width in PINS.items() for i in range(width)
    ]
    assert sorted(places) == sorted(ports)
    assert len(set(places.values())) == len(ports)
    assert set(re.findall(r'^IOBUF PORT "(\S+)" ', LPF, re.MULTILINE)) == set(ports)


def test_the_clock_with_the_least_room_counts() -> None:
    clocks = {
        "a": {"achieved": 300.0, "constraint": 250.0},
        "b": {"achieved": 70.0, "constraint": 62.5},
    }
    assert slowest({"fmax": clocks}) == (70.0, 62.5)


def test_what_does_not_meet_its_clock_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bitstream, "FOLDER", tmp_path)
    report = {"fmax": {"clk": {"achieved": 58.24, "constraint": 62.5}}}
    (tmp_path / "timing.json").write_text(json.dumps(report))
    options = argparse.Namespace(seed=3, out=tmp_path / "ulx3s.bit")
    with pytest.raises(Different) as refused:
        bitstream._packed(options, Choices())
    assert str(refused.value) == (
        f"seed 3 reaches 58.2 MHz, the board's clock is 62.5 MHz: {options.out} is not written; "
        "try another --seed, or a lower --megahertz"
    )
    assert not options.out.exists()


def test_the_log_says_what_is_used() -> None:
    log = "Info: \t          DCCA:\t  2/  56     3%\nInfo: \t        DP16KD:\t 0/ 208     0%\n"
    assert used(log) == {"DCCA": (2, 56)}


def test_what_would_be_run_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    bit = tmp_path / "x.bit"
    bit.write_bytes(b"")
    assert program.main(["--bitstream", str(bit)]) == 3
    shown = capsys.readouterr()
    assert shown.out == (
        f"with board, openFPGALoader and {bit} this would run:\n"
        f"openFPGALoader --board ulx3s --write-flash {bit}\n"
    )
    assert shown.err == (
        "error: openFPGALoader is not installed: nothing was written, the commands are above\n"
    )
    assert program.commands(Path("x.bit"), Path("m.img"), True) == [
        [
            "openFPGALoader",
            "--board",
            "ulx3s",
            "--write-flash",
            "--offset",
            "0x200000",
            "--file-type",
            "raw",
            "m.img",
        ],
        ["openFPGALoader", "--board", "ulx3s", "x.bit"],
    ]


@pytest.mark.parametrize("ends", [0, 1])
def test_the_tool_writes_the_image_then_the_bitstream(
    ends: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "openFPGALoader"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit {ends}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(program, "connected", lambda: True)
    bit, image = tmp_path / "x.bit", tmp_path / "m.img"
    bit.write_bytes(b"")
    image.write_bytes(image_for(random_model(SHAPE, seed=5)))
    calls = [
        f"--board ulx3s --write-flash --offset 0x200000 --file-type raw {image}",
        f"--board ulx3s --write-flash {bit}",
    ]
    assert program.main(["--bitstream", str(bit), "--load", str(image)]) == 3 * ends
    assert (tmp_path / "calls").read_text().splitlines() == calls[: 1 if ends else 2]
    assert ("error: openFPGALoader failed: is the board free" in capsys.readouterr().err) == ends


def test_an_image_that_the_flash_has_no_place_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = image_for(random_model(SHAPE, seed=5))
    (tmp_path / "m.img").write_bytes(image)
    monkeypatch.setattr(program, "FLASH_BYTES", 0x20_0000 + len(image) - 1)
    assert program.main(["--load", str(tmp_path / "m.img")]) == 2
    shown, error = capsys.readouterr()
    assert shown == ""
    assert error == (
        f"error: {tmp_path}/m.img has {len(image):,} bytes, the flash {len(image) - 1:,} behind "
        "the bitstream: load it over the line, with boards.host.load\n"
    )


def test_an_image_that_is_none_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.img").write_bytes(b"no")
    assert program.main(["--load", str(tmp_path / "m.img")]) == 2
    assert "the image ends at byte 2" in capsys.readouterr().err
