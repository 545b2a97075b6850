"""Scripts that run a bench in the common simulators."""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = """\
#!/bin/sh
# {tool}. Ends with 0 when the bench says PASS, and with 1 or more otherwise.
# {options}
set -eu
cd "$(dirname "$0")"
work=build_{name}
rm -rf "$work"
mkdir "$work"
"""

#: A simulator's own exit code says little: some end with 0 after $fatal.
_VERDICT = """\
if [ "$code" -ne 0 ] || ! grep -q '^\\(# \\)\\{0,1\\}PASS: ' "$work/run.log"; then
  echo "FAILED: see $PWD/$work/run.log" >&2
  exit 1
fi
"""


def _script(name: str, tool: str, options: str, build: str, run: str) -> str:
    head = _HEAD.format(name=name, tool=tool, options=options)
    shown = (
        f'code=0\n{{ {run} || echo "exit code $?" > "$work/code"; }} 2>&1 | tee "$work/run.log"\n'
    )
    return head + build + shown + 'if [ -s "$work/code" ]; then code=1; fi\n' + _VERDICT


def scripts(top: str, sources: Sequence[str]) -> dict[str, str]:
    """A script for each simulator, by file name; they take +stalls=SEED and the like.

    sources
        Files in the order in which they are read.
    """
    listed = " ".join(sources)
    return {
        "run_icarus.sh": _script(
            "icarus",
            "Icarus Verilog 11 or newer",
            "IVERILOG_FLAGS goes to iverilog, arguments to the simulation.",
            'echo "+timescale+1ns/1ps" > "$work/options"\n'
            'iverilog -g2012 -c "$work/options" ${IVERILOG_FLAGS:-} '
            f'-s {top} -o "$work/{top}.vvp" \\\n  {listed}\n',
            f'vvp -n "$work/{top}.vvp" "$@"',
        ),
        "run_verilator.sh": _script(
            "verilator",
            "Verilator 5.036 or newer, and a C++20 compiler",
            "VERILATOR_FLAGS goes to verilator, arguments to the simulation.",
            "# make cannot build in a folder whose path has blanks.\n"
            'case "$PWD" in\n*[[:blank:]]*) objects=$(mktemp -d) ;;\n*) objects=$work ;;\nesac\n'
            "verilator --binary --timing --timescale 1ns/1ps -j 0 ${VERILATOR_FLAGS:-} "
            f"--top-module {top} "
            f'--Mdir "$objects" -o {top} \\\n  {listed} > "$work/build.log" 2>&1 || {{\n'
            '  cat "$work/build.log" >&2\n  exit 1\n}\n'
            f'if [ "$objects" != "$work" ]; then\n  mv "$objects/{top}" "$work"\n'
            '  rm -r "$objects"\nfi\n',
            f'"$work/{top}" "$@"',
        ),
        "run_questa.sh": _script(
            "questa",
            "Questa or ModelSim",
            "VLOG_FLAGS goes to vlog, arguments to the simulation.",
            'vlib "$work/library"\n'
            f'vlog -sv -work "$work/library" -timescale 1ns/1ps ${{VLOG_FLAGS:-}} \\\n  {listed}\n',
            f'vsim -c -lib "$work/library" -onfinish exit '
            f'-do "onbreak {{quit -f -code 1}}; run -all; quit -f" {top} "$@" < /dev/null',
        ),
        "run_vcs.sh": _script(
            "vcs",
            "Synopsys VCS",
            "VCS_FLAGS goes to vcs, arguments to the simulation.",
            f"vcs -full64 -sverilog -timescale=1ns/1ps ${{VCS_FLAGS:-}} -top {top} "
            f'-Mdir="$work/csrc" -o "$work/simv" \\\n  {listed}\n',
            '"$work/simv" "$@"',
        ),
        "run_xcelium.sh": _script(
            "xcelium",
            "Cadence Xcelium",
            "XRUN_FLAGS goes to xrun, as do arguments.",
            "",
            f"xrun -64bit -sv -timescale 1ns/1ps ${{XRUN_FLAGS:-}} -top {top} "
            f'-xmlibdirpath "$work" -l "$work/xrun.log" "$@" \\\n  {listed}',
        ),
        "run_xsim.sh": _script(
            "xsim",
            "AMD Vivado xsim",
            "XELAB_FLAGS goes to xelab; arguments are plusargs without the +.",
            'options=\nfor argument; do options="$options --testplusarg ${argument#+}"; done\n'
            f'xvlog --sv --work "bench=$work/library" \\\n  {listed}\n'
            f'xelab -L "bench=$work/library" --timescale 1ns/1ps ${{XELAB_FLAGS:-}} '
            f'--snapshot {top} "bench.{top}"\n',
            f"xsim {top} --runall $options",
        ),
    }
