"""Names of the C export: several models and the driver in one program, C and C++."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, store
from golden.model import Model
from quant.export import c
from quant.export.__main__ import main
from tests import zoo
from tests.ending import exit_code
from tests.quant import exported
from tests.quant.exported import CHECKED, STRICT, WARNINGS
from tests.tiers import quick
from verify.driver import DRIVER

AWKWARD = ["a", "int", "INT8", "stdint", "E", "Row_of", "embedding", "final", "norm", "layer_0",
           "projection", "bert2rtl", "tests", "x8", "sizeof", "BERT", "n" * 64]  # fmt: skip
"""Types of C, reserved beginnings, system headers, and names that the sources have inside."""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def write(sources: Mapping[str, str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in sources.items():
        (folder / name).write_text(text)


def small(seed: int) -> Model:
    """With an embedding's norm, a factorised embedding, pre-norm's last norm, 16-bit operands."""
    name = "pre-norm" if seed % 2 else "factorised"
    return zoo.model(name, seed, precise=bool(seed % 2), labels=2 + seed, vocabulary=30)


CALLS = r"""
    static const uint32_t ids[] = {1, 29, 7};
    static PREFIX_workspace PREFIX_memory;
    static int32_t PREFIX_logits[CAPITAL_LOGITS];
    if (PREFIX_infer(&PREFIX_memory, ids, NULL, NULL, 3, PREFIX_logits) != CAPITAL_OK) {
        return 1;
    }
    for (int i = 0; i < CAPITAL_LABELS; i++) {
        printf("%ld\n", (long)PREFIX_logits[i]);
    }
"""
DRIVERS = """
    b2rtl_device device;
    uint32_t registers[64] = {0};
    printf("%d\\n", (int)b2rtl_open(&device, (uintptr_t)registers));
"""


@pytest.mark.parametrize("first", ["driver", "models"])
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_two_models_and_the_driver_in_one_program(
    language: str, first: str, tmp_path: Path
) -> None:
    """All .c files of both exports but their examples, and the driver's, in one folder."""
    models = {"first": small(0), "Second_2": small(1)}
    for prefix, model in models.items():
        write(c.sources(model, {}, prefix), tmp_path)
        (tmp_path / f"{prefix}_main.c").unlink()
    of_models = [f"{prefix}_infer.h" for prefix in models]
    of_driver = str(DRIVER / "bert2rtl.h")
    headers = [of_driver, *of_models] if first == "driver" else [*of_models, of_driver]
    headers += [f"{prefix}_model.h" for prefix in models]
    calls = [
        "{" + CALLS.replace("PREFIX", prefix).replace("CAPITAL", prefix.upper()) + "}\n"
        for prefix in models
    ]
    text = "#include <stdio.h>\n" + "".join(f'#include "{name}"\n' for name in headers)
    text += "int main(void)\n{\n" + "".join(calls) + "{" + DRIVERS + "}\nreturn 0;\n}\n"
    (tmp_path / f"use.{language}").write_text(text)
    sources = [*tmp_path.glob("*.c"), DRIVER / "bert2rtl.c"]
    objects = []
    for source in sources:
        objects.append(tmp_path / f"{source.name}.o")
        run(
            "gcc",
            *STRICT,
            *CHECKED[1:],
            f"-I{DRIVER}",
            "-c",
            source,
            "-o",
            objects[-1],
            folder=tmp_path,
        )
    if language == "cpp":
        objects.append(tmp_path / "use.o")
        run(
            "g++",
            "-std=c++11",
            *WARNINGS,
            *CHECKED[1:],
            "-c",
            "use.cpp",
            "-o",
            "use.o",
            folder=tmp_path,
        )
    run("g++", *CHECKED[1:], *objects, "-o", "program", folder=tmp_path)
    logits = [int(n) for model in models.values() for n in encoder.run(model, [1, 29, 7])]
    *found, opened = map(int, run(tmp_path / "program", folder=tmp_path).split())
    assert found == logits
    assert opened < 0  # nothing is at that address


@pytest.mark.parametrize("prefix", quick(AWKWARD, 5))
def test_every_name_begins_with_the_prefix(prefix: str, tmp_path: Path) -> None:
    """Files; objects and functions with linkage; macros, but those of C's own headers."""
    sources = c.sources(small(len(prefix) % 2), {}, prefix)
    assert set(sources) == set(c.names(prefix))
    assert all(name.startswith(f"{prefix}_") for name in sources)
    write(sources, tmp_path)
    headers = [name for name in sources if name.endswith(".h")]
    every = "".join(f'#include "{name}"\n' for name in headers)
    standard = "#include <stddef.h>\n#include <stdint.h>\n"
    macros = []
    for name, text in (("all.c", standard + every), ("none.c", standard)):
        (tmp_path / name).write_text(text)
        found = run("gcc", "-std=c99", "-dM", "-E", "-I.", name, folder=tmp_path)
        macros.append(set(re.findall(r"^#define (\w+)", found, re.MULTILINE)))
    assert len(macros[0] - macros[1]) > 20
    assert [m for m in macros[0] - macros[1] if not m.startswith(f"{prefix.upper()}_")] == []
    (tmp_path / "all.cpp").write_text(every)
    run("g++", "-std=c++11", *WARNINGS, "-fsyntax-only", "-I.", "all.cpp", folder=tmp_path)
    for part in ("infer", "model"):
        run("gcc", *STRICT, "-O1", "-I.", "-c", f"{prefix}_{part}.c", folder=tmp_path)
    run(
        "gcc",
        *STRICT,
        "-I.",
        f"{prefix}_main.c",
        f"{prefix}_infer.o",
        f"{prefix}_model.o",
        "-o",
        "program",
        folder=tmp_path,
    )
    symbols = run(
        "nm",
        "-g",
        "--defined-only",
        "-P",
        f"{prefix}_infer.o",
        f"{prefix}_model.o",
        folder=tmp_path,
    )
    defined = [line.split()[0] for line in symbols.splitlines() if not line.endswith(":")]
    assert sorted(defined) == sorted(f"{prefix}_{name}" for name in ("infer", "message", "model"))


@pytest.mark.parametrize(
    "prefix",
    ["", "1a", "_a", "a-b", "a b", "a.b", "a_", "a__b", "ä", "a\n", "a/b", "../a", "n" * 65,
     "b2rtl", "B2RTL"],
)  # fmt: skip
def test_prefixes_that_are_none(prefix: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    assert main(["c", f"--prefix={prefix}", "--quantized", "nowhere", "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --prefix is {prefix!r}: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="--prefix is"):
        c.sources(small(0), {}, prefix)


def test_a_graph_has_no_prefix(tmp_path: Path, capsys) -> None:
    assert main(["onnx", "--prefix", "a", "-o", str(tmp_path / "x.onnx")]) == 2
    assert "--prefix is for the format c" in capsys.readouterr().err


def test_weights_and_labels_that_read_like_a_name_stay(tmp_path: Path) -> None:
    model = small(1)
    spelled = np.frombuffer(b"bert_ BERT_ bert_", np.int8)
    token = model.embedding.token.copy()
    token[:17, 0], token[1, :6], token[2, :6] = spelled, spelled[:6], spelled[6:12]
    model = replace(model, embedding=replace(model.embedding, token=token))
    sources = c.sources(model, {"spec": {"labels": ["bert_a", "BERT_b"]}}, "other")
    assert '["bert_a", "BERT_b"]' in sources["other_shape.h"]
    texts = [([i], [0], [1]) for i in range(17)]
    found = exported.answers(exported.build(sources, tmp_path, "-O1"), texts)
    assert found == exported.expected(model, texts)


def test_one_directory_holds_one_export(tmp_path: Path, capsys) -> None:
    store.save(small(1), tmp_path / "quantized", {})
    good = ["c", "--quantized", str(tmp_path / "quantized"), "-o", str(tmp_path / "out")]
    assert main([*good, "--prefix", "one"]) == 0
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert before == sorted(c.names("one"))
    assert exit_code(main, [*good, "--prefix", "two"]) == 2
    assert "out holds one_infer.c, which is not of an export with the prefix two" in (
        capsys.readouterr().err
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


@pytest.mark.parametrize(
    ("vocabulary", "positions", "ids"),
    quick(
        [(2000, 9, [0, 1000, 1999]), (1, 1, [0]), (2, 1, [0]), (2, 4, [0, 1]), (3, 9, [0, 1, 2])]
    ),
)
@pytest.mark.parametrize("folder", ["out", "a folder; with 'signs'/out"])
def test_the_lines_that_it_prints_work(
    vocabulary: int,
    positions: int,
    ids: list[int],
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys,
) -> None:
    """As they stand, in a shell; with the ids of the model's own vocabulary."""
    model = zoo.model("pre-norm", vocabulary=vocabulary, positions=positions)
    store.save(model, tmp_path / "quantized", {})
    monkeypatch.chdir(tmp_path)
    assert main(["c", "--quantized", "quantized", "-o", folder, "--prefix", "mine"]) == 0
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert run("sh", "-c", lines["compile"], folder=tmp_path) == ""
    found = run("sh", "-c", lines["run"], folder=tmp_path)
    assert list(map(int, found.split())) == encoder.run(model, ids).tolist()


def test_the_order_of_bytes_is_never_seen() -> None:
    """Objects are read as what they were written as: no unions, no copies of bytes, and no pointer
    is cast but to rows of bytes. So big-endian computers compute the same.
    """
    for name, text in c.sources(small(1), {}).items():
        code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', " ", text, flags=re.DOTALL)
        assert not re.search(r"\b(union|memcpy|memmove|fread|fwrite)\b", code), name
        casts = set(re.findall(r"\(([\w ]+\*)+\)", code))
        assert casts <= {"const signed char *"}, name
