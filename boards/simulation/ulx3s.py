"""The ULX3S, simulated: the Verilog of its top with models of the chips, at a pseudo-terminal.

with Simulated(choices(config), Path("build/ttyULX3S"), flash=image) as board:
    ...  # host programs talk to build/ttyULX3S
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.command import ToolError

from boards.gateware.system import BYTE_BITS, IMAGE_IN_FLASH, WRITE_CYCLES, Choices
from boards.protocol import ALIGNMENT, LONGEST, Kind, encode
from boards.simulation.chip import rules
from boards.simulation.top import MEGAHERTZ, design_of
from rtl.interface.config import Config
from sim.builds import build_harness
from sim.design import Design

HERE = Path(__file__).parent
BIT = 32
"""Clock cycles of a bit of the simulated line, for time passes slowly here: the fewest that leave
time for requests of 128 tokens."""
FLAGS = ("--pins-inout-enables",)


def choices(config: Config, bit: int = BIT) -> Choices:
    """Those of the simulated board: of the real one, but for its line of `bit` cycles a bit.

    Requests are as long as a WRITE may be on such a line.
    """
    words = BYTE_BITS * bit - WRITE_CYCLES
    longest = min(LONGEST, 4 + 2 * words // ALIGNMENT * ALIGNMENT)
    baud = round(MEGAHERTZ * 1e6 / bit)
    return Choices(config=config, megahertz=MEGAHERTZ, baud=baud, longest=longest)


def program(design: Design, flags: Sequence[str] = ()) -> Path:
    """The simulation of a top, built with further `flags` of Verilator; cached like every build."""
    return build_harness(design, [HERE / "ulx3s.cpp", HERE / "ecp5.v"], flags=(*FLAGS, *flags))


class Simulated:
    """A board that runs until the end of the context.

    Parameters
    ----------
    of
        `choices` of its configuration.
    port
        Where its terminal appears.
    flash
        A file whose contents lie in the flash where an image is looked for.
    memory
        A file with an image that lies in the SDRAM already and was checked: without the time that
        the flash or the line would take.
    design
        The Verilog of the top, where it is not `design_of(of)`.
    flags
        Of `program`.

    Raises
    ------
    ToolError
        It does not start, or has ended.
    ValueError
        There is something at `port`.
    """

    def __init__(
        self,
        of: Choices,
        port: Path,
        *,
        flash: Path | None = None,
        memory: Path | None = None,
        design: Design | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.port = port
        self._arguments = [
            str(program(design or design_of(of), flags)),
            str(port),
            str(of.bit),
            str(IMAGE_IN_FLASH),
            str(flash or ""),
            str(memory or ""),
            encode(Kind.USE, 1).hex() if memory else "",
            *map(str, rules(of.chip, of.megahertz)),
        ]

    def __enter__(self) -> Simulated:
        if self.port.exists():
            raise ValueError(
                f"{self.port} is there already: end the board that has it, or name another --port"
            )
        self.port.parent.mkdir(parents=True, exist_ok=True)
        # It ends with its standard input, so it never outlives this process.
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        try:
            self.device = self._line()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self.port.unlink(missing_ok=True)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate()
            why = said.strip() or f"with code {self._process.returncode}"
            raise ToolError(f"the simulated board has ended: {why}")
        return line.rstrip("\n")

    def tell(self, command: str) -> dict[str, Any]:
        """Give a command of `ulx3s.cpp`; the board's state after it.

        Raises
        ------
        ValueError
            There is no such command.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._line()
        if not answer.startswith("{"):
            raise ValueError(answer)
        return dict(json.loads(answer))

    def wait(self) -> None:
        """Until it ends."""
        self._process.wait()

    @property
    def state(self) -> dict[str, Any]:
        """cycles, led, refreshes, violations: what the chips complain of."""
        return self.tell("state")
