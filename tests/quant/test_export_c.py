"""The C export against golden, bit for bit."""

import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, fast, reciprocal, requantize, rsqrt, softmax, store
from golden.model import Model, Shape
from golden.random import random_model
from quant.calibrate import encode
from quant.export import __main__ as c
from quant.quantize.options import REMEDIES, Options
from tests import zoo
from tests.quant import tiny
from tests.quant.test_quantize import VARIED, checkpoint, inputs
from tests.tiers import quick

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
STRICT = ("-std=c99", *WARNINGS)
CHECKED = ("-O3", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]

EVERY: dict[str, bool] = {name: name != "first_norm" for one in zoo.KINDS.values() for name in one}
STRUCTURES = [
    *((name, EVERY) for name in zoo.SHAPES | zoo.CORNERS),
    *(("pairs", kinds) for kinds in zoo.KINDS.values()),
]
"""Each shape with all that it may have, and one shape with each alone."""

Text = tuple[Sequence[int], Sequence[int]]  # ids, types


def build(sources: Mapping[str, str], directory: Path, *flags: str, compiler: str = "gcc") -> Path:
    """The program made of all .c files among the sources."""
    directory.mkdir(exist_ok=True)
    for name, text in sources.items():
        directory.joinpath(name).write_text(text)
    program = directory / "program"
    files = sorted(name for name in sources if name.endswith(".c"))
    command = [compiler, *STRICT, *flags, "-o", str(program), *files]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return program


def answers(program: Path, texts: Iterable[Text]) -> list[list[int]]:
    """The logits that main.c prints."""
    lines = (" ".join(f"{i}:{t}" for i, t in zip(*text)) for text in texts)
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def random_texts(shape: Shape, seed: int, count: int) -> Iterator[Text]:
    """One token, all that there may be, then any number."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        length = [1, shape.tokens, int(rng.integers(1, shape.tokens + 1))][min(i, 2)]
        types = rng.integers(0, max(shape.types, 1), length)
        yield rng.integers(0, shape.vocabulary, length).tolist(), types.tolist()


def assert_golden(model: Model, directory: Path, *flags: str) -> None:
    texts = list(random_texts(model.shape, model.shape.hidden, 12))
    right = [np.ravel(encoder.run(model, *text)).tolist() for text in texts]
    assert answers(build(c.sources(model, {}), directory, *flags), texts) == right


def accumulators(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """acc, m and s to requantize: acc of every magnitude, half of them next to a tie."""
    m = rng.integers(1 << 15, 1 << 16, count)
    m[: count // 100], m[-count // 100 :] = 1 << 15, (1 << 16) - 1
    s = rng.integers(1, 48, count)
    acc = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 31, count)
    tie = ((rng.integers(-40_000, 40_000, count) * 2 + 1) << (s - 1)) // m
    tie = np.clip(tie, -(1 << 31), (1 << 31) - 1)
    return np.where(rng.random(count) < 0.5, tie, acc), m, s


def variances(rng: np.random.Generator, count: int) -> np.ndarray:
    """v of rsqrt: every magnitude, and both ends of each octave."""
    v = np.maximum(rng.integers(1, 1 << 52, count) >> rng.integers(0, 52, count), 1)
    return np.concatenate([v, 1 << np.arange(52), (1 << np.arange(1, 53)) - 1])


TOKENS = 128  # of the 200 reviews; a sanitized program reads fewer of them


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_200_reviews(compiler, quantized_directory, reviews, shipped, tmp_path):
    model, info = store.load(quantized_directory)
    program = build(c.sources(model, info), tmp_path, "-O2", compiler=compiler)
    texts = [(text.ids.tolist(), text.types) for text in encode(reviews, shipped, TOKENS)]
    assert len(texts) == 200
    assert answers(program, texts) == fast.run_batch(model, *zip(*texts)).tolist()


@pytest.mark.slow
def test_the_longest_text_under_sanitizers(quantized_directory: Path, tmp_path: Path) -> None:
    model, info = store.load(quantized_directory)
    program = build(c.sources(model, info), tmp_path, *CHECKED)
    texts = list(random_texts(model.shape, 1, 2))
    assert [len(ids) for ids, _ in texts] == [1, 512]
    assert answers(program, texts) == fast.run_batch(model, *zip(*texts)).tolist()


@pytest.mark.parametrize("choices", quick(VARIED, 2))
def test_remedies(choices: dict, tmp_path: Path) -> None:
    """Centred, balanced and split channels are other integers in the same formulas."""
    source = checkpoint(**choices)
    quantized = tiny.quantized(source, inputs(20, 1, source.spec), Options(remedies=REMEDIES))
    assert_golden(quantized.model, tmp_path, "-O1")


@pytest.mark.parametrize(("name", "kinds"), quick(STRUCTURES, 4))
def test_structures(name: str, kinds: dict[str, bool], tmp_path: Path) -> None:
    assert_golden(zoo.model(name, **kinds), tmp_path, *CHECKED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 16, 2, 8, 2500, 2, 50, 16, 0),
        Shape(1, 8, 5, 205, 1024, 2, 50, 4, 1, norm="pre", pooling="mean"),
        Shape(1, 1024, 1, 3, 2048, 2, 9, 3, 2),
    ],
    ids=["1024 and 1024 and 452", "1024 and 1; 1024", "1024 and 1024"],
)
def test_rows_of_several_strings(shape: Shape, tmp_path: Path) -> None:
    assert_golden(random_model(shape, 3), tmp_path, *CHECKED)


def test_a_deep_head_where_a_char_has_no_sign(tmp_path: Path) -> None:
    """A layer more before the logits, half as wide and without an activation."""
    model = zoo.model("bert-tiny")
    square, logits = model.head
    half = len(square.weight) // 2
    parts = {name: getattr(square, name)[:half].copy() for name in ("weight", "bias", "m", "s")}
    last = replace(logits, weight=logits.weight[:, :half].copy())
    deep = replace(model, head=(square, replace(square, **parts, table=None), last))
    assert_golden(deep, tmp_path, "-O1", "-funsigned-char")


def test_every_pair_of_codes_and_every_trigraph_stand_in_a_string(tmp_path: Path) -> None:
    pairs = bytes(code for first in range(256) for second in range(256) for code in (first, second))
    data = pairs + b"".join(b"??" + bytes([last]) for last in b"=/'()!<>-") + b'\\\n\\"\\0001'
    data += bytes(-len(data) % 512)
    rows = np.frombuffer(data, np.int8).reshape(-1, 512)
    main = "#include <stdio.h>\n" + "".join(c.codes("rows", rows)).replace("static ", "static ", 1)
    main += "int main(void) { return fwrite(rows, sizeof rows, 1, stdout) != 1; }\n"
    program = build({"bert_main.c": main}, tmp_path)
    written = subprocess.run([program], capture_output=True, check=True).stdout
    assert np.frombuffer(written, np.int8).reshape(-1, 513)[:, :512].tolist() == rows.tolist()


UNITS = r"""
#include <stdio.h>
#include "bert_infer.c"
int main(int count, char **name)
{
    int64_t in[3];
    int32_t out[2] = {0, 0};
    while (count == 2 && fread(in, sizeof in, 1, stdin)) {
        switch (name[1][0]) {
        case 'r': out[0] = (int32_t)reciprocal(in[0], &out[1]); break;
        case 's': out[0] = (int32_t)rsqrt(in[0], &out[1]); break;
        case 'w':
            row_scale((int32_t)in[0], (int32_t)in[1], (int32_t)in[2], &out[0], &out[1]);
            break;
        default:
            out[0] = requantize((int32_t)in[0], (int32_t)in[1], (int32_t)in[2], LIMIT8);
            out[1] = requantize((int32_t)in[0], (int32_t)in[1], (int32_t)in[2], LIMIT16);
        }
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"""


@pytest.mark.slow
def test_the_functions_are_goldens(tmp_path: Path) -> None:
    """The reciprocal of every sum; of the others every magnitude, ties and extremes, by seed."""
    sources = c.sources(zoo.model("one", 0), {})
    # Included, so that its static functions can be called.
    (tmp_path / "bert_infer.c").write_text(sources.pop("bert_infer.c"))
    program = build(sources | {"bert_main.c": UNITS}, tmp_path, *CHECKED)

    rng = np.random.default_rng(2)
    count = 200_000
    sums = np.arange(1, 1 << 21)
    v = variances(rng, count)
    acc, m, s = accumulators(rng, count)
    row = rng.integers(255, 255 * 8192, count)
    context = rng.integers(1, 27, count)
    # Products next below 2^31, of which some are rounded up to it.
    row_m = np.where(s < 8, ((1 << 31) - 1) // reciprocal.reciprocal(row)[0], m)
    right = {
        "r": (reciprocal.reciprocal(sums), (sums, 0, 0)),
        "s": (rsqrt.rsqrt(v), (v, 0, 0)),
        "w": (softmax.row_scale(row, row_m, context), (row, row_m, context)),
        "q": ([requantize.requantize(acc, m, s, bits) for bits in (8, 16)], (acc, m, s)),
    }
    for name, (expected_values, arguments) in right.items():
        given = np.stack(np.broadcast_arrays(*arguments), axis=1).astype(np.int64)
        done = subprocess.run([program, name], input=given.tobytes(), capture_output=True)
        found = np.frombuffer(done.stdout, np.int32)
        assert np.array_equal(found, np.stack(expected_values, axis=1).ravel()), name


CODES = r"""
#include <stdio.h>
#include "bert_infer.h"
static bert_workspace w;
static const uint32_t ids[] = {0, 29, 30, UINT32_MAX};
static const uint8_t types[] = {0, 1, 2, 255};
static int32_t logits[2] = {77, 78};
static void say(int code) { printf("%d %s\n", code, bert_message(code)); }
int main(void)
{
    say(bert_infer(NULL, ids, NULL, 1, logits));
    say(bert_infer(&w, NULL, NULL, 1, logits));
    say(bert_infer(&w, ids, NULL, 1, NULL));
    say(bert_infer(&w, ids, NULL, 0, logits));
    say(bert_infer(&w, ids, NULL, -1, logits));
    say(bert_infer(&w, ids, NULL, 13, logits));
    say(bert_infer(&w, ids, NULL, 3, logits));
    say(bert_infer(&w, ids + 3, NULL, 1, logits));
    say(bert_infer(&w, ids, types + 1, 2, logits));
    say(bert_infer(&w, ids, types + 3, 1, logits));
    printf("%d %d\n", (int)logits[0], (int)logits[1]);
    say(bert_infer(&w, ids, NULL, 2, logits));
    printf("%d %d\n", (int)logits[0], (int)logits[1]);
    say(99);
    return 0;
}
"""


def test_codes(tmp_path: Path) -> None:
    model = zoo.model("bert-tiny", 2, positions=12)
    sources = c.sources(model, {}) | {"bert_main.c": CODES}
    program = build(sources, tmp_path, *CHECKED)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    first, second = encoder.run(model, [0, 29])
    assert done.stdout.splitlines() == [
        *["1 workspace, ids or logits is NULL"] * 3,
        *["2 the number of tokens is out of range"] * 3,
        *["3 a token id is not in the vocabulary"] * 2,
        *["4 a type (segment id) is out of range"] * 2,
        "77 78",
        "0 done",
        f"{first} {second}",
        "99 unknown code",
    ]


NO_LISTS = (b"good", b"-1", b"1:", b"1::1", b":1", b"1:0:1", b"1,2")


@pytest.mark.slow
def test_the_program_refuses_lines(tmp_path: Path) -> None:
    """Listed mistakes, and any: a line is answered or refused in one line, and nothing crashes."""
    model = zoo.model("bert-tiny", 2, positions=12)
    program = build(c.sources(model, {}), tmp_path, *CHECKED)

    def run(text: bytes) -> tuple[int, bytes, bytes]:
        done = subprocess.run([program], input=text, capture_output=True)
        return done.returncode, done.stdout, done.stderr

    logits = " ".join(map(str, encoder.run(model, [1, 29], [0, 1]))).encode() + b"\n"
    assert run(b"") == (0, b"", b"")
    assert run(b"1 29:1") == (0, logits, b"")
    assert run(b"  1:0\t29:1\r\n1 29:1 \n") == (0, logits * 2, b"")
    for line, message in (
        (b"\n", b"the number of tokens is out of range"),
        (b"1 " * 13, b"the number of tokens is out of range"),
        (b"4294967297", b"a token id is not in the vocabulary"),
        (b"1:256", b"a type (segment id) is out of range"),
        *((line, b"not a list of ID or ID:TYPE") for line in NO_LISTS),
    ):
        error = b": " + message + b"\n"
        assert run(line) == (1, b"", b"error: line 1" + error), line
        assert run(b"1 29:1\n" + line + b"\n1") == (1, logits, b"error: line 2" + error), line

    draw = random.Random(1)
    for _ in range(60):
        alphabet = draw.choice([bytes(range(256)), b"0123456789: \n", b"0 1:\n"])
        code, _, error = run(bytes(draw.choices(alphabet, k=draw.randrange(1, 80))))
        assert code in (0, 1)
        assert error.count(b"\n") == code
