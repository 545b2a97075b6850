"""The modules that every memory of the Verilog is an instance of, and the tables of its ROMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RAM = "bert2rtl_ram_1r1w"
REGISTER_FILE = "bert2rtl_register_file"
ROM = "bert2rtl_rom"
ROM_TWO_PORTS = "bert2rtl_rom_2r"
MODULES = (RAM, REGISTER_FILE, ROM, ROM_TWO_PORTS)
HERE = Path(__file__).parent


def text(module: str) -> str:
    """The Verilog of a module of the library."""
    return (HERE / f"{module}.v").read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A module that holds the entries of a ROM.

    Attributes
    ----------
    entries
        From address 0 on.
    ports
        Read ports: 1 or 2.
    """

    name: str
    width: int
    entries: Sequence[int]
    ports: int

    @property
    def verilog(self) -> str:
        """Its text."""
        count, mask = len(self.entries), (1 << self.width) - 1
        digits = -(-self.width // 4)
        words = [f"{self.width}'h{entry & mask:0{digits}x}" for entry in self.entries]
        in_line = max(1, 80 // (len(words[0]) + 2))
        rows = [", ".join(words[at : at + in_line]) for at in range(0, count, in_line)]
        address = max(1, (count - 1).bit_length())
        ports, joined = [], []
        for port in range(self.ports):
            ports += [
                f"  input  wire [{address - 1}:0] address{port}",
                f"  output wire [{self.width - 1}:0] data{port}",
            ]
            end = port if self.ports > 1 else ""
            joined += [f"    .address{end}(address{port})", f"    .data{end}(data{port})"]
        return "\n".join(
            [
                f"module {self.name}(",
                "  input  wire clk,",
                "  // An entry comes two cycles after its address.",
                ",\n".join(ports),
                ");",
                "  // The entry of address 0 comes first.",
                f"  localparam [{self.width * count - 1}:0] TABLE = {{",
                ",\n".join(f"    {row}" for row in rows),
                "  };",
                "",
                f"  {ROM_TWO_PORTS if self.ports > 1 else ROM} #(",
                f"    .WIDTH({self.width}),",
                f"    .DEPTH({count}),",
                f"    .ADDRESS_BITS({address}),",
                "    .TABLE(TABLE)",
                "  ) rom (",
                ",\n".join(["    .clk(clk)", *joined]),
                "  );",
                "endmodule",
                "",
            ]
        )


def examples() -> dict[str, dict[str, str]]:
    """Other memories in place of RAM: by the name of a folder, the text of each file in it."""
    return {
        folder.name: {
            path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.v"))
        }
        for folder in sorted(HERE.iterdir())
        if (folder / f"{RAM}.v").is_file()
    }
