"""The clock as constraints: SDC, XDC (Vivado) and LPF (ECP5, nextpnr and Diamond)."""

from __future__ import annotations

from cli.errors import UserError


def _tcl(module: str, mhz: float, tool: str) -> str:
    return (
        f"# Clock of {module}, {tool}: {mhz:g} MHz.\n"
        "# Where the clock comes from a PLL, name its net instead of the port.\n"
        f"create_clock -name clk -period {1000 / mhz:.3f} [get_ports clk]\n"
    )


def constraints(module: str, mhz: float) -> dict[str, str]:
    """Text by file name; the port is `clk`, of `mhz` megahertz.

    All inputs and outputs are of that clock, the reset too. Where they leave the FPGA their delays
    are the board's, and stand in no file here.
    """
    if not 0 < mhz < 10_000:
        raise UserError(f"the clock is {mhz:g} MHz: it must lie above 0 and below 10000")
    return {
        f"{module}.sdc": _tcl(module, mhz, "Synopsys Design Constraints"),
        f"{module}.xdc": _tcl(module, mhz, "Xilinx Design Constraints"),
        f"{module}.lpf": (
            f"# Clock of {module}, Lattice Preference File: {mhz:g} MHz.\n"
            f'FREQUENCY PORT "clk" {mhz:g} MHZ;\n'
        ),
    }
