"""The ONNX export in onnxruntime against golden, bit for bit."""

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from golden import encoder, fast, reciprocal, requantize, rsqrt, softmax, store
from golden.model import Model, Shape
from golden.random import random_model
from quant.calibrate import Calibrator, encode
from quant.export.__main__ import main
from quant.export.graph import CHECK, IR_VERSION, OPSET, Graph, graph
from quant.foreign.checkpoint import Checkpoint
from quant.quantize.options import REMEDIES, Options
from quant.texts.data_file import Review
from tests import zoo
from tests.ending import exit_code
from tests.quant import exported
from tests.quant.exported import Text, accumulators, expected, masked, random_texts, variances
from tests.quant.test_quantize import VARIED, checkpoint, inputs
from tests.tiers import quick


def session(model: onnx.ModelProto | Path, optimised: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what a bad input is refused with goes into the exception
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def answers(ready: onnxruntime.InferenceSession, texts: Iterable[Text]) -> list[list[int]]:
    results = []
    for text in texts:
        arrays = [np.array(values, np.int64) for values in text]
        (logits,) = ready.run(["logits"], dict(zip(("ids", "types", "attend"), arrays)))
        assert logits.dtype == np.int32
        results.append(logits.tolist())
    return results


@pytest.mark.slow
def test_200_reviews(
    quantized_directory: Path,
    reviews: list[Review],
    shipped: Checkpoint,
    tmp_path: Path,
) -> None:
    """At up to 128 tokens, every third with a mask that has holes; written by the command."""
    out = tmp_path / "model.onnx"
    assert main(["onnx", "--quantized", str(quantized_directory), "-o", str(out)]) == 0
    texts = masked(encode(reviews, shipped, 128), 0)
    assert len(texts) == 200
    model, _ = store.load(quantized_directory)
    texts += random_texts(model.shape, 1, 2)
    assert len(texts[-1][0]) == 512
    assert answers(session(out), texts) == fast.run_batch(model, *zip(*texts)).tolist()


@pytest.mark.parametrize("seed", quick(exported.SEEDS, 2))
def test_random_structures(seed: int) -> None:
    """As the graph stands, and as onnxruntime rewrites it."""
    model = exported.random_structure(seed)
    made = graph(model)
    onnx.checker.check_model(made, full_check=True)
    assert {opset.domain for opset in made.opset_import} == {""}
    assert {node.domain for node in made.graph.node} == {""}
    texts = list(random_texts(model.shape, seed, 12))
    for optimised in (False, True):
        assert answers(session(made, optimised), texts) == expected(model, texts)


@pytest.mark.parametrize("choices", quick(VARIED, 5))
def test_remedies(choices: dict) -> None:
    source = checkpoint(**choices)
    quantized = Calibrator(source, inputs(20, 1, source.spec)).quantize(Options(remedies=REMEDIES))
    texts = [(text.ids, text.types, [1] * len(text.ids)) for text in inputs(20, 2, source.spec)]
    assert answers(session(graph(quantized.model)), texts) == expected(quantized.model, texts)


def test_every_tensor_is_an_integer() -> None:
    made = graph(exported.random_structure(1))
    inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True)
    kinds = {tensor.data_type for tensor in made.graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in inferred.graph.value_info}
    names = ("INT8", "INT16", "INT32", "INT64", "BOOL")
    assert kinds == {getattr(onnx.TensorProto, name) for name in names}


def test_a_logit_that_is_off_by_one_is_seen() -> None:
    model = exported.random_structure(3)
    last = replace(model.head[-1], bias=model.head[-1].bias + np.int32(1))
    texts = list(random_texts(model.shape, 3, 4))
    found = answers(session(graph(replace(model, head=(*model.head[:-1], last)))), texts)
    assert (np.array(found) - expected(model, texts) == 1).all()


def unit(name: str, *arguments: np.ndarray, kind: type[Graph] = Graph) -> list[np.ndarray]:
    """The results of one method of the graph for columns [N, 1] of int64."""
    made = kind()
    names = [f"x{i}" for i in range(len(arguments))]
    method = getattr(made, name)
    outputs = method(*names) if name != "requantize" else [method(*names, bits) for bits in (8, 16)]
    values = [
        onnx.helper.make_tensor_value_info(value, onnx.TensorProto.INT64, ["n", 1])
        for value in (*names, *outputs)
    ]
    body = onnx.helper.make_graph(
        made.nodes, "unit", values[: len(names)], values[len(names) :], made.constants
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION)
    given = {name: column.astype(np.int64)[:, None] for name, column in zip(names, arguments)}
    return [result[:, 0] for result in session(model).run(None, given)]


limit = Graph.limit


def units_differ() -> list[str]:
    """Which methods of the graph are not golden's functions.

    The reciprocal of every sum; of the others every magnitude, ties and extremes, by seed.
    """
    rng = np.random.default_rng(2)
    count = 100_000
    sums = np.arange(1, 1 << 21)
    v = variances(rng, count)
    acc, m, s = accumulators(rng, count)
    right = {
        "reciprocal": (reciprocal.reciprocal(sums), (sums,)),
        "rsqrt": (rsqrt.rsqrt(v), (v,)),
        "requantize": ([requantize.requantize(acc, m, s, bits) for bits in (8, 16)], (acc, m, s)),
    }
    return [
        name
        for name, (results, arguments) in right.items()
        if not all(map(np.array_equal, unit(name, *arguments), results))
    ]


def test_units() -> None:
    assert units_differ() == []


def test_the_scale_of_a_row() -> None:
    """Sums of every magnitude, and products next below 2^31, of which some are rounded up to it."""
    rng = np.random.default_rng(2)
    row = rng.integers(255, 255 * 8192, 5000)
    carried = 0
    near = ((1 << 31) - 1) // reciprocal.reciprocal(row[:5])[0]
    for m in (1 << 15, 40_000, (1 << 16) - 1, *near):
        found = _row_scale(row, int(m), 17)
        assert all(map(np.array_equal, found, softmax.row_scale(row, int(m), 17)))
        carried += int((found[0] == 1 << 15).sum())
    assert carried > 0


def _row_scale(row: np.ndarray, m: int, s: int) -> list[np.ndarray]:
    class Fixed(Graph):
        def scale(self, row_sum: str) -> tuple[str, str]:
            return self.row_scale(row_sum, m, s)

    return unit("scale", row, kind=Fixed)


@pytest.mark.parametrize(
    ("method", "wrong", "seen"),
    [
        (
            "floor_shift",
            lambda self, x, s: self.node("Div", x, 1 << s),
            ["reciprocal", "rsqrt"],
        ),
        (
            "limit",
            lambda self, x, bits: limit(self, x, bits + (bits > 8)),
            ["requantize"],
        ),
        (
            "round_shift",
            lambda self, x, s: self.node("Div", x, self.table(1 << np.arange(62), s)),
            ["requantize"],
        ),
    ],
    ids=["towards zero", "int17 for int16", "truncates"],
)
def test_a_fault_of_one_bit_is_seen(
    method: str, wrong: Callable, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Graph, method, wrong)
    assert units_differ() == seen


@pytest.fixture(scope="module")
def fragile() -> Model:
    return random_model(Shape(2, 12, 2, 6, 30, 3, 60, 26, 2, position_offset=2, pooling="mean"), 1)


def test_input_beyond_the_tables_is_an_error_of_the_runtime(fragile: Model) -> None:
    ready = session(graph(fragile))
    for text in (
        ([60], [0], [1]),
        ([1], [2], [1]),
        ([1] * 25, [0] * 25, [1] * 25),
    ):
        with pytest.raises(Exception, match=r"out of (data )?bounds|invalid"):
            answers(ready, [text])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (([-1], [0], [1]), CHECK),
        (([5, -60], [0, 0], [1, 1]), CHECK),
        (([5, 6], [0, -1], [1, 1]), CHECK),
        (([5, 6], [0, 0], [0, 0]), CHECK),
        (([5, 6], [0, 0], [1, 2]), CHECK),
        (([5, 6], [0, 0], [1, -1]), CHECK),
        (([5, 6], [0, 0], [1]), f"{CHECK}|[Mm]ismatch"),
        (([5, 6], [0], [1, 1]), "[Mm]ismatch|dimension"),
        (([], [], []), "onnxruntime|ONNXRuntime"),
    ],
)
@pytest.mark.parametrize("pooling", quick(["mean", "none"]))
def test_what_golden_refuses_is_an_error(
    text: Text, why: str, pooling: str, fragile: Model
) -> None:
    model = random_model(replace(fragile.shape, pooling=pooling), 1)
    with pytest.raises(ValueError, match=r"allowed|ids"):
        encoder.run(model, *text)
    for optimised in (False, True):
        with pytest.raises(Exception, match=why):
            answers(session(graph(model), optimised), [text])


ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod", "Less", "GreaterOrEqual", "Equal", "Where",
              "Cast", "Gather", "MatMul", "ReduceSum", "ReduceMax")  # fmt: skip
INT32, INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64
FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


def degraded(made: onnx.ModelProto, kinds: dict[str, int]) -> onnx.ModelProto:
    """The graph in a runtime whose operators compute in the type that `kinds` has for them.

    Operands and results of an operator go through that type and back.
    """
    inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    types = {value.name: value.type.tensor_type.elem_type for value in inferred.value_info}
    types |= {tensor.name: tensor.data_type for tensor in inferred.initializer}
    nodes: list[onnx.NodeProto] = []

    def through(kind: int, name: str, last: str = "") -> str:
        narrow, last = f"narrow_{len(nodes)}", last or f"back_{len(nodes)}"
        nodes.append(onnx.helper.make_node("Cast", [name], [narrow], to=kind))
        nodes.append(onnx.helper.make_node("Cast", [narrow], [last], to=types[name]))
        return last

    for node in made.graph.node:
        changed, kind = onnx.NodeProto(), kinds.get(node.op_type)
        changed.CopyFrom(node)
        if kind is not None:
            for i, name in enumerate(node.input):
                index = i > 0 and node.op_type in ("Gather", "ReduceSum")
                if not index and types.get(name) in (INT32, INT64):
                    changed.input[i] = through(kind, name)
        nodes.append(changed)
        (output,) = node.output
        if kind is not None and types.get(output) in (INT32, INT64):
            changed.output[0] = f"{output}_exact"
            types[changed.output[0]] = types[output]
            through(kind, changed.output[0], output)
    result = onnx.ModelProto()
    result.CopyFrom(made)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


EVERY = {
    "int32": dict.fromkeys(ARITHMETIC, INT32),
    "float32": dict.fromkeys(ARITHMETIC, FLOAT),
    "float64": dict.fromkeys(ARITHMETIC, DOUBLE),
    "int32, some of it by float32": dict.fromkeys(ARITHMETIC, INT32)
    | dict.fromkeys(("Div", "Mod", "Less", "Equal", "MatMul", "ReduceSum", "ReduceMax"), FLOAT),
}
ONE = {
    f"{operator} by {name}": {operator: kind}
    for name, kind in (("int32", INT32), ("float32", FLOAT), ("float64", DOUBLE))
    for operator in (ARITHMETIC if kind != DOUBLE else ("Add", "Sub", "Mul", "Div"))
}


def given_in(kinds: dict[str, int], model: Model) -> tuple[int, int]:
    """How many of two texts are an error, and how many get wrong logits."""
    made = degraded(graph(model), kinds)
    onnx.checker.check_model(made, full_check=True)
    ready = session(made, optimised=False)
    refused = wrong = 0
    for text in random_texts(model.shape, 1, 2):
        try:
            (found,) = answers(ready, [text])
        except Exception as error:
            refused += bool(re.search(f"{CHECK}|division by zero", str(error)))
        else:
            wrong += [found] != expected(model, [text])
    return refused, wrong


@pytest.mark.parametrize("name", quick(EVERY))
def test_a_narrow_runtime_is_an_error(name: str, wide: Model) -> None:
    """OpenVINO 2026.4.1 is the last of them: before the self-test its logits were just wrong."""
    assert given_in(EVERY[name], wide) == (2, 0)


def test_a_narrow_runtime_is_an_error_for_every_token(wide: Model) -> None:
    model = random_model(replace(wide.shape, pooling="none"), 1)
    assert given_in(ONE["MatMul by float32"], model) == (2, 0)


@pytest.mark.slow
def test_no_operator_is_inexact_in_silence(wide: Model) -> None:
    """Each of them in each type is an error, or all is right all the same."""
    found = {name: given_in(kinds, wide) for name, kinds in ONE.items()}
    assert {name: n for name, n in found.items() if n not in ((2, 0), (0, 0))} == {}
    assert sum(n == (2, 0) for n in found.values()) >= 12


def test_without_the_self_test_they_are_just_wrong(
    wide: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Graph, "wrong", lambda self, zero: zero)
    assert given_in({}, wide) == (0, 0)
    names = ["Add by float64", "Sub by float32", "Gather by float32"]
    assert [given_in(ONE[name], wide) for name in names] == [(0, 2)] * 3


@pytest.fixture(scope="module")
def wide() -> Model:
    """Rows so long that float32 does not hold their sums."""
    return zoo.model("post-norm-mean", ffn=3000)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(zoo.model("no-pooler"), tmp_path / "quantized", {})
    good = ["onnx", "--quantized", str(tmp_path / "quantized"), "-o"]
    for arguments, message in (
        ([*good, str(tmp_path)], "is a directory: name a file"),
        ([*good, str(tmp_path / "quantized" / "quantized.json" / "x")], "is no folder"),
        (["onnx", "--quantized", "nowhere", "-o", str(tmp_path / "x")], "nowhere/quantized.json"),
    ):
        assert exit_code(main, arguments) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert message in error
    assert [path.name for path in tmp_path.iterdir()] == ["quantized"]
    out = tmp_path / "model.onnx"
    assert main([*good, str(out)]) == 0
    assert "operators of opset 17" in capsys.readouterr().out
    first = out.read_bytes()
    assert main([*good, str(out)]) == 0
    assert out.read_bytes() == first


def test_without_its_package_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save(zoo.model("no-pooler"), tmp_path / "quantized", {})
    monkeypatch.delitem(sys.modules, "quant.export.graph")
    monkeypatch.setitem(sys.modules, "onnx", None)
    out = tmp_path / "model.onnx"
    assert main(["onnx", "--quantized", str(tmp_path / "quantized"), "-o", str(out)]) == 3
    assert capsys.readouterr().err == (
        "error: the package onnx is not installed: run `make setup-onnx`, then use "
        ".venv/bin/python\n"
    )
    assert not out.exists()
