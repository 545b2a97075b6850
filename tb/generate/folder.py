"""The folder of a bench: the unit, its bench, vectors, scripts for simulators and a README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.files import replacing

from golden.model import Model
from rtl.compile.fit import FitError
from rtl.compile.program import compile_model
from rtl.dma.bus import Bus
from rtl.generate.sheet import file_list, generated, module_files
from rtl.generate.verilog import TRACE
from rtl.interface.config import Config
from tb.cut import Sequence as Tokens
from tb.generate import readme, scripts, tops
from tb.generate.inference import accelerator_inference
from tb.generate.machines import Run, accelerator_files, example_files
from tb.generate.memories import format_of, hexadecimal
from tb.record import Record, layout
from tb.scenarios import SMALL, batch_lengths, family, kinds_of, sequence, sequences

MARK = "bench.f"
"""The file list of every folder that is written here."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a bench is made of.

    module
        Name of the unit's Verilog module.
    verilog
        Text of the unit, with its trace ports.
    files
        Text by path: the bench, the vectors under vectors/, and an example where there is one.
    facts
        For the README: name of the unit, configuration, what is played.
    """

    module: str
    verilog: str
    files: Mapping[str, str]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def top(self) -> str:
        """Module of the bench."""
        return f"{self.module}_bench"

    @property
    def sources(self) -> list[str]:
        """The bench's own source files in the order in which a simulator reads them."""
        return [name for name in self.files if name.startswith("bench/")]


def bench_of(
    unit: str,
    config: Config,
    reviews: Sequence[tuple[Model, Tokens]] = (),
    *,
    stalls: int | None = None,
    record: Record | None = None,
    prefix: str = "",
    design: tuple[Mapping[str, Any], str] | None = None,
    bus: Bus | None = None,
) -> Bench:
    """The bench of a unit: small random cases first, then those of the reviews.

    reviews
        Models with a sequence each; what golden says of them is compared.
    stalls
        Seed of the pauses on every stream.
    record
        Of a unit without streams: what its cocotb bench gives and reads (`sim.record.recorded`).
    prefix
        As in `rtl.generate.sheet.generate`.
    design
        Data sheet and Verilog of the unit with this prefix, trace ports included, where they are
        at hand.
    bus
        Of the accelerator with DMA.

    Raises ValueError: No unit is called so, or a model or sequence does not fit the configuration.
    """
    if design is None:
        made = generated(unit, config, prefix=prefix, bus=bus)
        design = made.facts, made.verilog
    sheet, verilog = design
    facts: dict[str, Any] = {
        "unit": unit,
        "config": config,
        "stalls": stalls,
        "streams": unit == "accelerator",
        "bus": bus,
        "traced": any(port.startswith(TRACE) for port in sheet["ports"]),
    }
    if unit == "accelerator":
        runs = encoders(config, reviews)
        files = {f"bench/{tops.PARTS}": tops.parts_text()}
        files |= accelerator_files(sheet, config, runs, stalls or 0, bus)
        if bus is None:
            example = example_files(sheet, config, runs[0])
            files |= {f"example/{name}": text for name, text in example.items()}
        facts["inferences"] = [run.inference.name for run in runs]
    else:
        assert record is not None, unit
        files = _unit_files(sheet, record.text)
        facts["inferences"] = record.played
    return Bench(module=sheet["module"], verilog=verilog, files=files, facts=facts)


def fitted(name: str, config: Config) -> Model:
    """A random model of the family, cut down until it fits the configuration.

    Raises ValueError: Not even one head of one channel fits.
    """
    shape, sizes_of = SMALL[name], ("hidden", "ffn", "labels")
    shape = replace(shape, **{x: min(getattr(shape, x), getattr(config, x)) for x in sizes_of})
    sizes = [(heads, shape.head_size) for heads in range(shape.heads, 0, -1)]
    sizes += [(1, size) for size in range(shape.head_size - 1, 0, -1)]
    for heads, size in sizes:
        wanted = replace(shape, heads=heads, head_size=size)
        model = family(name, wanted, **kinds_of(wanted, config))
        with suppress(FitError):
            compile_model(model, config)
            return model
    raise UserError(f"{config} is too small for a model to play on it: make hidden or ffn larger")


def encoders(config: Config, reviews: Sequence[tuple[Model, Tokens]]) -> list[Run]:
    """Two small random models, each with one sequence and with a batch, then the reviews."""
    runs = []
    for name in ("three-heads", "pre-norm"):
        model = fitted(name, config)
        program = compile_model(model, config)
        tokens, lengths = min(config.lanes + 3, program.tokens), batch_lengths(program)
        for what, drawn, batch in (
            (f"{tokens} tokens", sequence(model, tokens, 1), None),
            (f"{len(lengths)} sequences", sequences(model, lengths, 1), lengths),
        ):
            named = f"random, {name}, {what}"
            one = accelerator_inference(program, model, *drawn, lengths=batch, name=named)
            runs.append(Run(model, one))
    for model, review in reviews:
        program = compile_model(model, config)
        parts = review.ids, review.types, review.attend
        name = f"{review.source!r}, {len(review.ids)} tokens"
        runs.append(Run(model, accelerator_inference(program, model, *parts, name=name)))
    return runs


def _unit_files(sheet: Mapping[str, Any], record: str) -> dict[str, str]:
    """The bench that plays a record of a unit's pins (tb.record), and the record."""
    module, ports, cycles = sheet["module"], sheet["ports"], record.split()
    inputs, outputs = layout(ports)
    places, width, checks = {}, 0, ""
    for name in (*inputs, *outputs):
        places[name] = f"pins[{width}+:{ports[name]['width']}]"
        width += ports[name]["width"]
    for name in outputs:
        form, pin = format_of(ports[name]), places[name]
        shape = f"{form.length}, {form.width}, 1'b{int(form.signed)}"
        given = f"\"{name}\", {shape}, WIDTH'({pin}), WIDTH'({name})"
        checks += f"      if (pins[{width}]) compare({given});\n"
        width += 1
    wires = tops.wires(ports) + "  wire rst;\n"
    wires += "".join(f"  assign {name} = {places[name]};\n" for name in inputs)
    top = f"{module}_bench"
    bench = tops.filled(
        "unit.sv",
        module=module,
        top=top,
        wires=wires,
        unit=tops.instance(module, ports),
        checks=checks,
        width=width,
        words=len(cycles),
    )
    pins = hexadecimal([*(int(line, 16) for line in cycles), (1 << width + 8) - 1], width + 8)
    return {f"bench/{top}.sv": bench, "vectors/pins.mem": pins}


def bench_files(bench: Bench, rtl: Sequence[str]) -> dict[str, str]:
    """All files around the Verilog of the unit: the bench, its scripts and the README.

    rtl
        Paths of the unit's Verilog in the folder.
    """
    texts = dict(bench.files) | scripts.scripts(bench.top, MARK, bench.facts["streams"])
    texts[MARK] = file_list([*bench.sources, *rtl])
    texts["README.md"] = readme.text(bench.top, bench.module, bench.facts, rtl)
    return texts


def check_folder(folder: Path) -> None:
    """Refuse a folder that a bench may not replace.

    Raises ValueError: It holds something else than a bench.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UserError(
            f"{folder}: it exists and has no {MARK}, so it holds something else than a bench: "
            "choose another folder with --out"
        )


def write_bench(bench: Bench, folder: Path) -> list[Path]:
    """Write a bench with the unit's Verilog and scripts into `folder`, which then holds nothing
    else; returns the files.

    The folder appears whole or not at all; an older bench is replaced.

    Raises ValueError: The folder holds something else than a bench.
    Raises OSError: It cannot be written.
    """
    check_folder(folder)
    rtl = {f"rtl/{name}": text for name, text in module_files(bench.verilog).items()}
    texts = bench_files(bench, list(rtl)) | rtl
    with replacing(folder) as temporary:
        for name, text in texts.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if path.suffix == ".sh":
                path.chmod(0o755)
    return [folder / name for name in sorted(texts)]
