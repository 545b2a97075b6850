"""The memories of an accelerator, and how many block RAMs each takes.

A block RAM of 18 kbit (DP16KD of the ECP5, RAMB18 of Xilinx 7) is 512 words of 36 bits, 1024 of 18,
2048 of 9, 4096 of 4, 8192 of 2 or 16384 of 1, with a read and a write port. Yosys takes the shape
that needs the fewest, and the deepest of those; where several lie one behind the other, LUTs choose
among them. A memory that fits few blocks of 16 words of 4 bits, each in the place of four LUTs, is
put there. `tests/sim/test_estimate.py` holds all this to Yosys.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtl.interface.config import Config, ceil_div, power_of_two

SHAPES = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
"""Width and depth of a block RAM."""

CELLS, CELLS_OF_A_BIT = 21, 25
"""Up to so many blocks of distributed memory are taken in place of a block RAM."""


@dataclass(frozen=True)
class Memory:
    """`count` memories of `depth` words of `width` bits.

    `lanes` parts of a word are written apart: a block RAM enables 9 bits or 18, or all. Where a
    word is there `at_once`, in the cycle of its address, it is distributed, whatever its size.
    """

    name: str
    width: int
    depth: int
    count: int = 1
    lanes: int = 1
    at_once: bool = False

    @property
    def bits(self) -> int:
        """Of all of them."""
        return self.count * self.width * self.depth

    @property
    def _shape(self) -> tuple[int, int]:
        """Block RAMs of one, and how many lie one behind the other."""
        found = ((self._columns(w), ceil_div(self.depth, d)) for w, d in SHAPES)
        return min((columns * rows, rows) for columns, rows in found)

    def _columns(self, width: int) -> int:
        """Block RAMs of so many bits side by side."""
        if self.lanes == 1:
            return ceil_div(self.width, width)
        lane = self.width // self.lanes
        if width == 36:  # two halves of 18 bits, each with an enable
            return ceil_div(self.lanes * ceil_div(lane, 18), 2)
        return self.lanes * ceil_div(lane, width)

    @property
    def _cells(self) -> int:
        """Blocks of distributed memory of one."""
        return ceil_div(self.width, 4) * ceil_div(self.depth, 16)

    @property
    def distributed(self) -> bool:
        """It is in LUTs, not in block RAM."""
        most = CELLS_OF_A_BIT if self.width == 1 else CELLS
        return self.at_once or self._cells <= most * self._shape[0]

    @property
    def blocks(self) -> int:
        """Block RAMs of all of them."""
        return 0 if self.distributed else self.count * self._shape[0]

    @property
    def luts(self) -> int:
        """LUT4 of all of them, about: distributed memory, and the choice among blocks."""
        rows = ceil_div(self.depth, 16) if self.distributed else self._shape[1]
        choice = self.width * (rows - 1) + (rows if rows > 1 else 0)
        return self.count * (choice + (4 * self._cells if self.distributed else 0))

    @property
    def flip_flops(self) -> int:
        """Those of the read, which a block RAM has inside; the output register not counted."""
        return self.count * self.width if self.distributed and not self.at_once else 0


def memories(config: Config) -> tuple[Memory, ...]:
    """Every memory of the accelerator that `config` makes."""
    n, ways, lengths = config.lanes, config.ways, config.tokens.bit_length()
    ends, halves = lengths + config.row_tiles.bit_length() + 1, 1 + config.precise  # of a value
    buffers = power_of_two(config.tokens) + config.tokens
    parameters = Memory("bias, m and s", 8, 2 * ways, 7 * n, at_once=True)
    bias = Memory("position bias", 16 * n, config.bias_heads * config.bias_head_words)
    turned = 2 * config.rotary_pairs * power_of_two(config.row_tiles)
    return (
        *([parameters] if ways > 1 else []),
        Memory("X16", 16 * n, config.x_words, lanes=n),
        Memory("X8", 8 * halves * n, config.x8_words, ways),
        Memory("banks Q, K, V, C", 8 * halves * n, config.bank_words, 4 * ways),
        Memory("weights", 8 * n, 2 * config.weight_words, ways),
        Memory("scores", 17 * n, buffers),
        Memory("p", 8 * n, buffers),
        *([bias] if config.bias_heads else []),
        *([Memory("rotary positions", 16 * n, turned)] if turned else []),
        Memory("mask", 1, config.places),
        Memory("token ids", 26, config.places),
        Memory("activation tables", 8, 256, halves * n),
        Memory("exponential tables", 9, 256, n // 2),
        Memory("reciprocal table", 25, 128),
        Memory("rsqrt table", 61, 256),
        Memory("parameters of LayerNorm", 51, config.hidden),
        Memory("logits", 32 * n, config.labels * config.gathered_tiles, lanes=n),
        Memory("lengths", lengths, config.row_tiles, 2, at_once=True),
        Memory("lengths in row tiles, too", ends, config.row_tiles, at_once=True),
    )
