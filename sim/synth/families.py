"""The families: the Yosys commands that map to each, and what its cells are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

KINDS = ("LUT", "FF", "DSP", "block RAM")

# ice40_dsp of Yosys 0.70 moves two registers behind a product into SB_MAC16 and loses the second:
# it leaves that in the netlist with an input that nothing drives, so the product is cut off. A
# register behind a product that is kept has none after it moved (the first one still is).
_ICE40 = """\
synth_ice40 -dsp -top {top} -run begin:coarse
opt -nodffe -nosdff
opt_clean
select -set products t:$mul %co1:+$mul[Y]
select -set registered @products %co2:+$dff[D,Q] @products %d w:* %i
setattr -set keep 1 @registered
synth_ice40 -dsp -top {top} -run coarse:"""

# lattice_dsp_nexus of Yosys 0.70 loses the operand of a product whose register feeds another
# product, too (the netlist has zeros in its place): products are mapped here, without that pass.
_NEXUS = """\
synth_nexus -noiopad -top {top} -run begin:coarse
proc
flatten
opt -nodffe -nosdff
wreduce
opt_clean
techmap -map +/mul2dsp.v -D DSP_A_MAXWIDTH=18 -D DSP_B_MAXWIDTH=18 -D DSP_A_MINWIDTH=4 \
-D DSP_B_MINWIDTH=4 -D DSP_NAME=$__NX_MUL18X18
chtype -set $mul t:$__soft_mul
techmap -map +/lattice/dsp_map_nexus.v
synth_nexus -noiopad -nodsp -top {top} -run coarse:"""


@dataclass(frozen=True)
class Family:
    """Parts of one kind, and how Yosys maps to them.

    Attributes
    ----------
    title
        The family, with the part whose Yosys options these are.
    script
        Yosys commands that map the module `{top}`, flat.
    cells
        Type -> (kind, how many of it one such cell takes).
    free
        Types that take none of the kinds: buffers of pins, and what is part of a LUT's place.
    models
        Yosys' files with the behaviour of cells.
    lut, dsp, ram
        What one of each is.
    """

    title: str
    script: str
    cells: Mapping[str, tuple[str, Fraction]]
    free: frozenset[str]
    models: tuple[str, ...]
    lut: str
    dsp: str
    ram: str


def _cells(**kinds: str) -> dict[str, tuple[str, Fraction]]:
    """The cells of each kind: 'LUT4 CCU2:2 MULT9X9:1/2' says that a CCU2 takes two places."""
    result = {}
    for kind, types in kinds.items():
        for word in types.split():
            name, _, share = word.partition(":")
            result[name] = (kind.replace("_", " "), Fraction(share or "1"))
    return result


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAMILIES = {
    "xilinx7": Family(
        "Xilinx 7 series",
        "synth_xilinx -flatten -noiopad -noclkbuf -family xc7 -top {top}",
        _cells(
            LUT="LUT1 LUT2 LUT3 LUT4 LUT5 LUT6 INV SRL16E SRLC16E SRLC32E RAM32X1D:2 RAM64X1D:2 "
            "RAM128X1D:4 RAM32M:4 RAM64M:4",
            FF="FDRE FDSE FDCE FDPE",
            DSP="DSP48E1",
            block_RAM="RAMB36E1 RAMB18E1:1/2",
        ),
        _named("CARRY4 MUXF7 MUXF8 BUFG IBUF OBUF"),
        ("xilinx/cells_sim.v",),
        "LUT6; two small ones may share a place, which is not counted",
        "DSP48E1, 25 x 18 bits",
        "36 kbit",
    ),
    "nexus": Family(
        "Lattice Nexus",
        _NEXUS,
        _cells(
            LUT="LUT4 INV CCU2:2 WIDEFN9:2 DPR16X4:4",
            FF="FD1P3BX FD1P3DX FD1P3IX FD1P3JX",
            DSP="MULT18X18 MULT9X9:1/2 MULT18X36:2 MULT36X36:4",
            block_RAM="PDPSC16K PDP16K DP16K SP16K",
        ),
        _named("IB OB VHI VLO"),
        ("nexus/cells_sim.v",),
        "LUT4",
        "18 x 18 bits",
        "18 kbit",
    ),
    "gowin": Family(
        "Gowin GW2A",
        "synth_gowin -noiopads -family gw2a -top {top}",
        _cells(
            LUT="LUT1 LUT2 LUT3 LUT4 INV ALU RAM16SDP1 RAM16SDP2:2 RAM16SDP4:4",
            FF="DFF DFFE DFFS DFFSE DFFR DFFRE DFFP DFFPE DFFC DFFCE",
            DSP="MULT18X18 MULT9X9:1/2 MULT36X36:4",
            block_RAM="SP SPX9 SDP SDPB SDPX9B DPB DPX9B pROM pROMX9",
        ),
        _named("MUX2_LUT5 MUX2_LUT6 MUX2_LUT7 MUX2_LUT8 IBUF OBUF VCC GND GSR"),
        ("gowin/cells_sim.v",),
        "LUT4",
        "18 x 18 bits",
        "18 kbit",
    ),
    "cyclone5": Family(
        "Intel Cyclone V",
        "synth_intel_alm -noiopad -noclkbuf -family cyclonev -top {top}",
        _cells(
            LUT="MISTRAL_ALUT2 MISTRAL_ALUT3 MISTRAL_ALUT4 MISTRAL_ALUT5 MISTRAL_ALUT6:2 "
            "MISTRAL_ALUT_ARITH MISTRAL_NOT MISTRAL_MLAB",
            FF="MISTRAL_FF",
            DSP="MISTRAL_MUL27X27 MISTRAL_MUL18X18:1/2 MISTRAL_MUL9X9:1/3",
            block_RAM="MISTRAL_M10K",
        ),
        _named("MISTRAL_CLKBUF MISTRAL_IB MISTRAL_OB"),
        tuple(f"intel_alm/common/{kind}_sim.v" for kind in ("alm", "dff", "dsp", "misc")),
        "half an ALM",
        "one of 27 x 27, two of 18 x 18 or three of 9 x 9 bits",
        "10 kbit",
    ),
    "ice40": Family(
        "Lattice iCE40 UltraPlus",
        _ICE40,
        _cells(
            LUT="SB_LUT4",
            FF="SB_DFF SB_DFFE SB_DFFSR SB_DFFSS SB_DFFESR SB_DFFESS",
            DSP="SB_MAC16",
            block_RAM="SB_RAM40_4K",
        ),
        _named("SB_CARRY SB_GB SB_IO"),
        ("ice40/cells_sim.v",),
        "LUT4, a carry with it",
        "16 x 16 bits",
        "4 kbit",
    ),
}


def script_of(family: str, top: str) -> str:
    """Yosys commands that map `top` of what was read, for a family of FAMILIES."""
    return "; ".join(FAMILIES[family].script.format(top=top).splitlines())
