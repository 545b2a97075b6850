"""`python -m quant.report`: a calibration and its evaluation as one HTML page.

The page carries all it needs: inline SVG, no script, no font or file from elsewhere.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.machine import BUILD
from cli.options import Parser, add_quantized
from cli.page import charts
from cli.page.template import render
from cli.paths import check_written

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from golden import activation, encoder, layernorm, softmax
from golden.model import Linear, Model, Norm
from quant.calibrate import observe_all
from quant.classify import Classifier
from quant.evaluate import add_text_options, evaluate, read_both
from quant.foreign.tokenizer import Tokens
from quant.measure.tasks import (
    Evaluation,
)
from quant.model import float_model
from quant.model.activation import ACTIVATIONS
from quant.model.spec import CLASSIFICATION
from quant.page import overview
from quant.quantize.observers import BINS, Observer
from quant.texts.corpora import SPLITS

TEMPLATE = Path(overview.__file__).with_name("report.html")
SENTENCE = "The plot is thin, but the acting is so good that I did not mind at all."
SHOWN_BINS = 128
OBSERVED = 64

EXAMPLES = """\
examples:
  python -m quant.report
  python -m quant.report --samples 5000 --out build/report.html
  python -m quant.report --sentence "What a waste of time."
"""

HEADS_DRAWN = 4
TOKENS_DRAWN = 40
NORMS_DRAWN = 6
HISTOGRAMS_DRAWN = 12


def figure(chart: str, caption: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{chart}</figure>"


def histograms(observers: dict[str, Observer], tensors: dict[str, dict[str, Any]]) -> str:
    """Every tensor that the float model has, the limits of its integer twin dashed."""
    figures = []
    for name, observer in observers.items():
        if not observer.reach or name == "logits":
            continue
        counts = observer.counts.reshape(SHOWN_BINS, -1).sum(axis=1)
        edges = np.linspace(-observer.reach, observer.reach, SHOWN_BINS + 1)
        used = np.flatnonzero(counts)
        keep = slice(int(used[0]), int(used[-1]) + 1)
        clip, caption = None, "not stored in 8 or 16 bits, no limits"
        format = tensors.get(name, {})
        if "factors" in format or "centre" in format:
            caption = f"{format['bits']} bits, limits of each channel"
        elif format:
            clip = format["scale"] * (2 ** (format["bits"] - 1) - 1)
            beyond = int(observer.counts[np.abs(observer.centres) > clip].sum())
            caption = (
                f"{format['bits']} bits to ±{clip:.3g}, {beyond:,} of {observer.count:,} beyond"
            )
            if clip > 4 * observer.amplitude:  # far outside: drawing it would hide the values
                caption, clip = f"{caption}; these limits are off the chart", None
        chart = charts.histogram(edges[keep.start : keep.stop + 1], counts[keep], clip, name)
        figures.append(figure(chart, f"<b>{escape(name)}</b>: {caption}"))
    return f'<div class="grid">{"".join(figures)}</div>'


def attention_maps(classifier: Classifier, tokens: Tokens) -> str:
    """The heads whose weights differ most between the float and the integer model."""
    checkpoint = classifier.require_checkpoint()
    floats: float_model.Trace = {}
    integers: dict[str, Any] = {}
    float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types, trace=floats)
    encoder.run(classifier.model, tokens.ids, tokens.types, trace=integers)
    heads = []
    for i in range(checkpoint.spec.layers):
        name = f"layer.{i}"
        weights = integers[f"{name}.p"] / integers[f"{name}.sum"][..., None]
        for head, (exact, found) in enumerate(zip(floats[f"{name}.probs"], weights)):
            heads.append((float(np.abs(found - exact).max()), i, head, exact, found))
    heads.sort(key=lambda entry: -entry[0])
    which = f"The {HEADS_DRAWN} of {len(heads):,} heads that differ most"
    if len(heads) <= HEADS_DRAWN:
        which = f"All {len(heads):,} heads, the one that differs most first"
    words = tokens.words[:TOKENS_DRAWN]
    if len(words) < len(tokens.words):
        which += f", of {len(tokens.words):,} tokens the first {TOKENS_DRAWN}"
    parts = [f"<p>{which}. Rows are queries, columns are keys; dark is a large weight.</p>"]
    for largest, i, head, exact, found in heads[:HEADS_DRAWN]:
        pair = []
        for kind, values in (("float", exact), ("integer", found)):
            shown = values[:TOKENS_DRAWN, :TOKENS_DRAWN]
            chart = charts.heat_map(shown, words, words, f"layer {i} {kind}")
            pair.append(figure(chart, kind))
        parts.append(
            f"<h3>Layer {i}, head {head}: weights differ by {largest:.4f} at most</h3>"
            f'<div class="pair">{"".join(pair)}</div>'
        )
    return "".join(parts)


def table_curve(layer: Linear, name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Error of an activation table over its 256 codes, in LSB of the output.

    before, after: the formats of its input and output.
    """
    codes = np.arange(-128, 128)
    if layer.table is None:
        return ""
    x = codes * before["scale"] + before.get("centre", 0.0)
    exact = ACTIVATIONS[name].function(x)
    output = activation.lookup(layer.table, codes.astype(np.int8)) * after["scale"]
    output += after.get("centre", 0.0)
    error = (output - exact) / after["scale"]
    curve = charts.lines(x, {"error": error}, "input", "error in LSB of the output")
    levels = charts.lines(x, {"exact": exact, "table": output}, "input", name, step=False)
    return f'<div class="pair">{levels}{curve}</div>'


def softmax_curve() -> str:
    """p, and its error against 255 exp(-x), over the distance to the row's maximum."""
    distance = np.arange(0, 10 * 256, 4)
    scores = np.concatenate([[0], -distance]).astype(np.int16)
    p, _, _ = softmax.softmax(scores[None], np.ones(1, bool))
    x = distance * np.log(2) / 256
    exact = 255 * np.exp(-x)
    curve = charts.lines(
        x, {"error": p[0, 1:] - exact}, "distance to the row's maximum in nats", "p - exact, LSB"
    )
    levels = charts.lines(
        x, {"255 exp(-x)": exact, "p": p[0, 1:].astype(float)}, "distance in nats", "p"
    )
    return f'<div class="pair">{levels}{curve}</div>'


def norm_curve(
    name: str, norm: Norm, arrays: dict[str, Any], z: NDArray[Any], scales: Sequence[float]
) -> str:
    """Histogram of the integer norm's error on real rows, in LSB of its int16 output."""
    input_scale, output_scale, epsilon = scales
    function = float_model.rms_norm if norm.rms else float_model.layer_norm
    exact = function(z * input_scale, arrays["gamma"], arrays["beta"], epsilon)
    error = (layernorm.layernorm(z, norm) - (exact / output_scale).clip(-32768, 32767)).ravel()
    counts, edges = np.histogram(error, 61)
    chart = charts.histogram(edges, counts, None, "LayerNorm error")
    return figure(chart, f"<b>{name}</b>: error in LSB, largest {np.abs(error).max():.2f}")


def norms(model: Model) -> list[tuple[str, str, Norm]]:
    """The first norms that read a sum of their own name: (tensor, parameters, norm)."""
    found = []
    if model.embedding.norm is not None:
        found.append(("embedding", "embedding.norm", model.embedding.norm))
    if model.shape.norm == "post":
        for i, layer in enumerate(model.layers):
            if layer.norm1 is not None:
                found.append((f"layer.{i}.attention", f"layer.{i}.norm1", layer.norm1))
            found.append((f"layer.{i}.ffn", f"layer.{i}.norm2", layer.norm2))
    return found[:NORMS_DRAWN]


def error_curves(classifier: Classifier, tokens: Tokens) -> str:
    model, tensors, spec = classifier.model, classifier.info["tensors"], classifier.spec
    arrays = classifier.require_checkpoint().arrays
    parts = ["<h3>Softmax: 2^(-d/256) in 8 bits</h3>", softmax_curve()]
    parts.append(f"<h3>Activation of layer 0: {spec.activation}</h3>")
    ends = ("gate.linear", "gate") if spec.gated else ("up", "hidden")
    formats = [tensors[f"layer.0.ffn.{name}"] for name in ends]
    parts.append(table_curve(model.layers[0].ffn.activated, spec.activation, *formats))
    for j, name in enumerate(spec.head_activations):
        parts.append(f"<h3>Head layer {j}: {name}</h3>")
        formats = [tensors[f"head.{j}.linear"], tensors[f"head.{j}"]]
        parts.append(table_curve(model.head[j], name, *formats))
    parts.append("<h3>LayerNorm on the rows of the sentence</h3><div class='grid'>")
    trace: dict[str, Any] = {}
    encoder.run(model, tokens.ids, tokens.types, trace=trace)
    for name, parameters, norm in norms(model):
        values = {
            key: arrays[f"{parameters}.{key}"].astype(np.float64) for key in ("gamma", "beta")
        }
        frame = tensors[f"{name}.norm"]
        factors = np.array(frame.get("factors", 1.0))
        values["gamma"] = values["gamma"] / factors
        values["beta"] = (values["beta"] - np.array(frame.get("centres", 0.0))) / factors
        scales = [tensors[f"{name}.{key}"]["scale"] for key in ("sum", "norm")]
        epsilon = spec.embedding_epsilon if name == "embedding" else spec.epsilon
        rows = trace[f"{name}.sum"]
        parts.append(norm_curve(parameters, norm, values, rows, [*scales, epsilon]))
    return "".join([*parts, "</div>"])


def memory(model: Model) -> str:
    """Bytes of the integer parameters and tables by part."""
    parts = {
        "embedding, tokens": model.embedding.token.nbytes << model.embedding.wide,
        "embedding, positions": model.embedding.position.nbytes << model.embedding.wide,
    }
    if model.projection is not None:
        parts["embedding, projection"] = _bytes(model.projection)
    if model.position_bias is not None:
        parts["position bias"] = model.position_bias.nbytes
    if model.rotary is not None:
        parts["rotary positions"] = sum(t.cos.nbytes + t.sin.nbytes for t in model.rotary)
    for i, layer in enumerate(model.layers):
        a = layer.attention
        linears = {
            "q": a.q,
            "k": a.k,
            "v": a.v,
            "o": a.o,
            "up": layer.ffn.up,
            "down": layer.ffn.down,
        }
        if layer.ffn.gate is not None:
            linears["gate"] = layer.ffn.gate
        for name, linear in linears.items():
            parts[f"layer {i}, {name}"] = _bytes(linear)
    for j, linear in enumerate(model.head):
        parts[f"head {j}"] = _bytes(linear)
    parts["norms"] = sum(_bytes(norm) for _, norm in model.norms())
    total = sum(parts.values())
    chart = overview.bars([(name, float(size), f"{size:,} B") for name, size in parts.items()])
    return f"<p>{total:,} bytes in all, biases, multipliers and tables included.</p>{chart}"


def _bytes(part: Linear | Norm) -> int:
    arrays = (getattr(part, field.name) for field in fields(part))
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def page(
    classifier: Classifier, result: Evaluation, texts: Sequence[Tokens], sentence: Tokens
) -> str:
    """The whole page; ``texts`` are those that were evaluated, the first are observed again."""
    placed, (sentence, *observed) = classifier.placed([sentence, *texts[:OBSERVED]])
    observers, _ = observe_all(placed.require_checkpoint(), observed)
    formats = classifier.info["tensors"]
    name = classifier.info["checkpoint"]["directory"]
    worst = [tensor for tensor in overview.worst_first(result.errors) if tensor in observers]
    drawn = {tensor: observers[tensor] for tensor in worst[:HISTOGRAMS_DRAWN]}
    sections = [
        ("Accuracy", overview.summary(result, classifier.info)),
        ("Confusion matrices", overview.confusions(result)),
        ("Tensors, worst first", overview.tensors(result)),
        (
            "Values of the worst tensors",
            f"<p>Values of the float model over {len(observed)} texts; {BINS // SHOWN_BINS} of the "
            f"observer's {BINS} bins are one here. Dashed: the largest and the smallest value that "
            "the tensor's integers hold; what is beyond saturates.</p>"
            + histograms(drawn, formats),
        ),
        ("Attention of a sentence", attention_maps(placed, sentence)),
        ("Error of the integer functions", error_curves(placed, sentence)),
        ("Memory", memory(classifier.model)),
        ("Texts that are classified wrongly", overview.wrong_texts(result, texts)),
    ]
    return render(
        TEMPLATE,
        name=name,
        verdict=Markup(overview.verdict(result)),
        sections=[(title, Markup(content)) for title, content in sections],
    )


def parser() -> Parser:
    result = Parser(
        "quant.report", "One HTML page that shows a calibration and its evaluation.", EXAMPLES
    )
    add_text_options(result, 500)
    add_quantized(result)
    result.add_argument(
        "--split", choices=SPLITS, default="test", help="of a named corpus (default: test)"
    )
    result.add_argument(
        "--sentence", default=SENTENCE, metavar="TEXT", help="whose attention is drawn"
    )
    result.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: build/report-MODEL.html)"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: report_command(parser().parse_args(arguments)))


def report_command(options: argparse.Namespace) -> int:
    _, classifier, _, texts, labels = read_both(options, (CLASSIFICATION,))
    name = classifier.require_checkpoint().directory.resolve().name
    out = options.out or BUILD / f"report-{name}.html"
    check_written(out, "FILE")
    whole = classifier.spec.given  # an image, or a file of rows, cannot be cut
    most = options.tokens if whole else min(TOKENS_DRAWN, options.tokens)
    sentence = classifier.tokens(options.sentence, max_tokens=most)
    result = evaluate(classifier, texts, labels)
    files.write(out, page(classifier, result, texts, sentence).encode())
    print(f"wrote {out}")
    if options.json:
        files.write_json(options.json, result.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
