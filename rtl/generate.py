"""Write a unit as Verilog, with a JSON of its ports, configuration and latency beside it.

examples:
  python -m rtl.generate --list
  python -m rtl.generate softmax --lanes 8 -o build/rtl
  python -m rtl.generate matmul --lanes 16 --dsp-macs 96 -o build/rtl
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from amaranth.lib import wiring

from rtl.config import Config
from rtl.units import UNITS, unit
from rtl.verilog import VerilogError, convert, ports, shape_facts, write_if_changed


def describe(component: wiring.Component, name: str, config: Config) -> dict[str, object]:
    """Facts of a generated unit: module, ports, configuration and, when it has one, latency.

    A port has `direction` (input or output), `width` in bits, and either `signed` or, for packed
    arrays and structures, `element` and `length` or `fields` with their offsets, low bits first.
    """
    clocks: dict[str, object] = {
        port: {"direction": "input", "width": 1, "signed": False} for port in ("clk", "rst")
    }
    own: dict[str, object] = {
        port: {"direction": "input" if is_input else "output"} | shape_facts(shape)
        for port, is_input, shape, _ in ports(component)
    }
    facts: dict[str, object] = {
        "module": name,
        "configuration": dataclasses.asdict(config),
        "ports": clocks | own,
    }
    latency = getattr(component, "latency", None)
    if isinstance(latency, int):
        facts["latency"] = latency
    return facts


def generate(name: str, config: Config, folder: Path) -> tuple[Path, Path]:
    """Write NAME.v and NAME.json into `folder`; returns the two paths.

    A file whose text is there already is not touched.

    Raises
    ------
    ValueError
        No unit is called `name`, or the unit refuses the configuration.
    VerilogError
        The design cannot be written as Verilog.
    """
    component = unit(name).build(config)
    facts = describe(component, name, config)
    verilog, sheet = folder / f"{name}.v", folder / f"{name}.json"
    write_if_changed(verilog, convert(component, name))
    write_if_changed(sheet, json.dumps(facts, indent=2) + "\n")
    return verilog, sheet


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add one option for each field of Config."""
    group = parser.add_argument_group("configuration")
    for field in dataclasses.fields(Config):
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int,
            default=field.default,
            metavar="N",
            help="default: all" if field.default is None else f"default: {field.default}",
        )


def config_of(options: argparse.Namespace) -> Config:
    """The Config that the options of `add_config_options` name; ValueError as Config says."""
    names = [field.name for field in dataclasses.fields(Config)]
    return Config(**{name: getattr(options, name) for name in names})


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rtl.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="?", help="which unit; --list shows them")
    parser.add_argument("--list", action="store_true", help="show the units and stop")
    folder = Path("build/rtl")
    parser.add_argument(
        "-o", "--out", type=Path, default=folder, metavar="DIR", help=f"default: {folder}"
    )
    add_config_options(parser)
    options = parser.parse_args()
    if options.list:
        for entry in UNITS.values():
            print(f"{entry.name:<12} {entry.description}")
        return 0
    if options.unit is None:
        parser.error("name a unit, or give --list to see them")
    try:
        for path in generate(options.unit, config_of(options), options.out):
            print(path)
    except (ValueError, VerilogError, OSError) as error:
        print(f"rtl.generate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rtl.generate: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
