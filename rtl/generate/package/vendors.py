"""The accelerator for Vivado's IP catalogue and for Platform Designer of Quartus, as Tcl."""

from __future__ import annotations

from collections.abc import Sequence

from rtl.dma.bus import Bus
from rtl.generate.package.core import ABOUT, name_of
from rtl.generate.package.instances import Ports
from rtl.generate.package.interfaces import (
    CLOCK,
    FULL,
    INTERRUPT,
    LITE,
    RESET,
    STREAM,
    Interface,
    interfaces,
)
from rtl.generate.verilog import TRACE

_VIVADO = """\
# {module} for the IP catalogue of Vivado, written by bert2rtl:
#   vivado -mode batch -source {module}_vivado.tcl [-tclargs FOLDER]
# FOLDER (default: {module}_vivado beside this file) is then a repository of IP.
set here [file dirname [file normalize [info script]]]
set out [file join $here {module}_vivado]
if {{[llength $argv]}} {{ set out [file normalize [lindex $argv 0]] }}

create_project -force {module}_project [file join $out project]
add_files -norecurse [list {verilog}]
set_property top {module} [current_fileset]
update_compile_order -fileset sources_1
ipx::package_project -root_dir [file join $out {module}] -vendor {vendor} -library {library} \\
  -taxonomy /UserIP -import_files -force
set core [ipx::current_core]
set_property name {module} $core
set_property version {version} $core
set_property display_name {module} $core
set_property description {{{about}}} $core

# What Vivado did not infer from the names of the ports.
proc interface {{name kind ports}} {{
  global core
  if {{![llength [ipx::get_bus_interfaces -quiet $name -of_objects $core]]}} {{
    ipx::infer_bus_interface $ports $kind $core
  }}
  return [ipx::get_bus_interfaces $name -of_objects $core]
}}
proc parameter {{name value interface}} {{
  set found [ipx::get_bus_parameters -quiet $name -of_objects $interface]
  if {{![llength $found]}} {{ set found [ipx::add_bus_parameter $name $interface] }}
  set_property value $value $found
}}
interface {clock} xilinx.com:signal:clock_rtl:1.0 {clock}
parameter POLARITY ACTIVE_HIGH [interface {reset} xilinx.com:signal:reset_rtl:1.0 {reset}]
parameter SENSITIVITY LEVEL_HIGH \\
  [interface {interrupt} xilinx.com:signal:interrupt_rtl:1.0 {interrupt}]
{interfaces}
ipx::associate_bus_interfaces -clock {clock} -reset {reset} $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project
"""
_VIVADO_KINDS = {
    LITE: "xilinx.com:interface:aximm_rtl:1.0",
    FULL: "xilinx.com:interface:aximm_rtl:1.0",
    STREAM: "xilinx.com:interface:axis_rtl:1.0",
}


def vivado(module: str, ports: Ports, verilog: Sequence[str]) -> str:
    """A script that packages the accelerator as IP.

    Parameters
    ----------
    verilog
        Paths of the Verilog from the script's own place.

    Raises
    ------
    ValueError
        A port belongs to no interface.
    """
    vendor, library, _, release = name_of(module).split(":")
    lines = []
    for one in interfaces(ports):
        lines += [
            f"interface {one.name} {_VIVADO_KINDS[one.kind]} {{{' '.join(one.ports.values())}}}",
            f"ipx::associate_bus_interfaces -busif {one.name} -clock {CLOCK} $core",
        ]
    return _VIVADO.format(
        module=module,
        verilog=" ".join(f"\\\n  [file join $here {path}]" for path in verilog) + " \\\n",
        vendor=vendor,
        library=library,
        version=".".join(f"{release}.0".split(".")[:2]),  # Vivado counts major and minor alone
        about=ABOUT,
        clock=CLOCK,
        reset=RESET,
        interrupt=INTERRUPT,
        interfaces="\n".join(lines),
    )


_QUARTUS_KINDS = {LITE: "axi4lite", FULL: "axi4", STREAM: "axi4stream"}


def quartus(module: str, ports: Ports, verilog: Sequence[str], bus: Bus | None = None) -> str:
    """A component of Platform Designer, whose file must be called something_hw.tcl.

    Parameters
    ----------
    verilog
        Paths of the Verilog from the script's own place.
    bus
        Of an accelerator with DMA.

    Raises
    ------
    ValueError
        A port belongs to no interface.
    """
    lines = [
        f"# {module} for Platform Designer of Quartus, written by bert2rtl.",
        "# Add the folder of this file to the search path of IP (Tools, Options).",
        "package require -exact qsys 16.0",
        f"set_module_property NAME {module}",
        f"set_module_property VERSION {name_of(module).split(':')[3]}",
        f"set_module_property DISPLAY_NAME {module}",
        f"set_module_property DESCRIPTION {{{ABOUT}}}",
        "set_module_property GROUP bert2rtl",
        "set_module_property EDITABLE false",
    ]
    for kind in ("QUARTUS_SYNTH", "SIM_VERILOG"):
        lines += [
            f"add_fileset {kind.lower()} {kind}",
            f"set_fileset_property {kind.lower()} TOP_LEVEL {module}",
            *(f"add_fileset_file {path.split('/')[-1]} VERILOG PATH {path}" for path in verilog),
        ]
    lines += [
        f"add_interface {CLOCK} clock end",
        f"add_interface_port {CLOCK} {CLOCK} clk Input 1",
        f"add_interface {RESET} reset end",
        f"set_interface_property {RESET} associatedClock {CLOCK}",
        f"set_interface_property {RESET} synchronousEdges BOTH",
        f"add_interface_port {RESET} {RESET} reset Input 1",
    ]
    for one in interfaces(ports):
        lines += _quartus_interface(one, ports, bus)
    lines += _quartus_interrupts(ports[INTERRUPT]["width"])
    trace = {port: port for port in ports if port.startswith(TRACE)}
    if trace:
        lines += ["add_interface trace conduit end", *_synchronous("trace")]
        lines += _quartus_ports("trace", trace, ports)
    return "\n".join(lines) + "\n"


def _synchronous(name: str) -> list[str]:
    return [
        f"set_interface_property {name} associatedClock {CLOCK}",
        f"set_interface_property {name} associatedReset {RESET}",
    ]


def _quartus_ports(name: str, roles: dict[str, str], ports: Ports) -> list[str]:
    """A line for each port by its role."""
    return [
        f"add_interface_port {name} {port} {role.lower()} "
        f"{ports[port]['direction'].capitalize()} {ports[port]['width']}"
        for role, port in roles.items()
    ]


def _quartus_interface(one: Interface, ports: Ports, bus: Bus | None) -> list[str]:
    way = "start" if one.manager else "end"
    lines = [
        f"add_interface {one.name} {_QUARTUS_KINDS[one.kind]} {way}",
        *_synchronous(one.name),
    ]
    if one.kind == FULL:
        assert bus is not None, "only an accelerator with DMA has a memory's master"
        most = bus.outstanding * bus.cores
        lines += [
            f"set_interface_property {one.name} {what}IssuingCapability {most}"
            for what in ("read", "combined")
        ]
    return [*lines, *_quartus_ports(one.name, one.ports, ports)]


def _quartus_interrupts(count: int) -> list[str]:
    """A sender for each interrupt: where there are several, each takes a bit of the port."""
    lines = []
    for bit in range(count):
        name = INTERRUPT if count == 1 else f"{INTERRUPT}_{bit}"
        lines += [
            f"add_interface {name} interrupt end",
            *_synchronous(name),
            f"set_interface_property {name} associatedAddressablePoint s_axi",
            f"add_interface_port {name} {name} irq Output 1",
        ]
        if count > 1:
            lines.append(f"set_port_property {name} fragment_list {{{INTERRUPT}({bit}:{bit})}}")
    return lines
