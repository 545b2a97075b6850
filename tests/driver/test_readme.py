"""The example of driver/README.md, compiled as it stands there and run on the simulated board."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.driver.conftest import LANES
from tests.driver.device import header
from verify.driver.board import BASE, DRIVER, STRICT
from verify.fuzz.subject import Subject

pytestmark = pytest.mark.verilator

#: What a user writes for a board; this board is the simulated one.
PLATFORM_H = """\
#include <stddef.h>
#include <stdint.h>
#define ACCELERATOR {base}u
#define LABELS 2
extern const uint8_t model[], rows[], tokens[];
extern const size_t model_bytes, rows_bytes, token_count;
void receive_logits(int32_t *logits, size_t count);
void send_tokens(const uint8_t *words, size_t count);
void send_model(const uint8_t *words, size_t bytes);
"""
BUS_H = """\
#include <stdint.h>
uint32_t platform_read(uintptr_t address);
void bus_write(uintptr_t address, uint32_t value);
#define B2RTL_READ32(address) platform_read(address)
#define B2RTL_WRITE32(address, value) bus_write(address, value)
"""
PLATFORM_C = """\
#include "platform.h"
void *board_open(uint32_t lanes, uintptr_t base);
void board_model(void *board, const uint8_t *bytes, const uint8_t *last, size_t words);
void board_tokens(void *board, const uint8_t *bytes, const uint8_t *last, size_t words);
void board_rows(void *board, const uint8_t *bytes, size_t rows, uint32_t row_bytes, uint32_t words,
                uint32_t latency);
size_t board_logits(void *board, int32_t *into, size_t room, size_t *lasts);
uint32_t bus_read(uintptr_t address);
const uint8_t model[] = {{{model}}}, rows[] = {{{rows}}}, tokens[] = {{{tokens}}};
const size_t model_bytes = sizeof model, rows_bytes = sizeof rows, token_count = sizeof tokens / 4;
static uint8_t last[sizeof model];
static int32_t *into;
static size_t room;
static void *board;
__attribute__((constructor)) static void power_up(void)
{{
    board = board_open({lanes}, ACCELERATOR);
    board_rows(board, rows, sizeof rows / {width}, {width}, {width} / {lanes}, 1);
}}
void receive_logits(int32_t *logits, size_t count)
{{
    into = logits;
    room = count;
}}
void send_tokens(const uint8_t *words, size_t count)
{{
    last[count - 1] = 1;
    board_tokens(board, words, last, count);
    last[count - 1] = 0;
}}
void send_model(const uint8_t *words, size_t bytes)
{{
    last[bytes / {lanes} - 1] = 1;
    board_model(board, words, last, bytes / {lanes});
}}
uint32_t platform_read(uintptr_t address)
{{
    const uint32_t value = bus_read(address);
    size_t lasts, count = board_logits(board, into, room, &lasts);
    into += count;
    room -= count;
    return value;
}}
"""


def numbers(data: bytes) -> str:
    return ", ".join(map(str, data))


@pytest.mark.parametrize(("labels", "flip"), [(2, 0), (5, 0), (2, 1)])
def test_the_example(
    labels: int, flip: int, subject: Subject, program: Path, tmp_path: Path
) -> None:
    """It prints golden's logits; with a HEADER of five labels or a flipped row, what is wrong."""
    (example,) = re.findall(r"```c\n(.*?)```", (DRIVER / "README.md").read_text(), re.DOTALL)
    run = subject.sound(4)
    assert run.logits is not None
    rows = bytearray(subject.table.tobytes())
    rows[-1] ^= flip
    (tmp_path / "platform.h").write_text(PLATFORM_H.format(base=BASE))
    (tmp_path / "bus.h").write_text(BUS_H)
    (tmp_path / "platform.c").write_text(
        PLATFORM_C.format(
            lanes=LANES,
            width=subject.table.shape[1],
            rows=numbers(rows),
            model=numbers(header(subject, "labels", labels)),
            tokens=numbers(run.tokens.data),
        )
    )
    (tmp_path / "example.c").write_text(example)
    command = ["gcc", *STRICT, "-include", "bus.h", f"-I{DRIVER}", "-I.", "-o", "example"]
    command += ["example.c", "platform.c", str(DRIVER / "bert2rtl.c"), str(program)]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "example"], capture_output=True, text=True, timeout=60)
    if labels == 2 and not flip:
        cycles, *logits = done.stdout.splitlines()
        assert done.returncode == 0
        assert re.fullmatch(r"\d+ cycles", cycles)
        assert tuple(map(int, logits)) == run.logits
    else:
        said = (
            "the rows are damaged" if flip else "the model has more logits than the accelerator\n"
        )
        assert done.returncode == 1
        assert done.stdout.startswith(said)
