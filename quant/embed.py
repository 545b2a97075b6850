"""`python -m quant.embed FILE -o out.npy`: the texts of a file as vectors of the integer model.

Vectors have length 1: the accelerator gives the integers, and dividing them by their length is left
to the host. The first texts also go through the float model, to show how near the two are: vector
by vector, by the order in which they put pairs of texts, and by how well they find a text by the
first third of its words.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import Parser, add_json, whole
from cli.progress import progress
from cli.words import counted

import numpy as np
from numpy.typing import NDArray

from quant.calibrate import SENTENCES
from quant.embedder import Embedder, add_embedder, embedder_of, inputs
from quant.foreign.tokenizer import InputError, Tokens
from quant.images import data as images
from quant.measure.metrics import spearman
from quant.measure.vectors import cosines, ndcg, nearest, of_pairs
from quant.model.spec import TEXTS
from quant.texts.corpora import CORPORA
from quant.texts.data_file import Review, TextError, add_columns, layout_of, until_a_text

SPLIT = "test"
COMPARED = 1000
PAIRED = 1000  # of them of which all pairs are compared
QUERIES = 200  # of them that are searched for
WORDS = 6  # of a text that is
DEPTH = 10
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
    queries: list[int] = field(default_factory=list)
    ndcg: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The figures of --json; None for the nearest neighbour of fewer than two."""
        values: dict[str, Any] = {
            "texts": self.texts,
            "tokens": self.tokens,
            "cut_texts": self.cut,
            "width": self.width,
            "compared_texts": sum(map(len, self.floats)),
        }
        if self.floats:
            integers, floats = np.concatenate(self.integers), np.concatenate(self.floats)
            found = cosines(integers, floats)
            same = ordered = None
            if len(floats) > 1:
                same = float(np.mean(nearest(integers) == nearest(floats)))
                ordered = spearman(of_pairs(integers[:PAIRED]), of_pairs(floats[:PAIRED]))
            values |= {
                "mean_cosine": float(found.mean()),
                "worst_cosine": float(found.min()),
                "worst_text": self.rows[found.argmin()],
                "nearest_same": same,
                "pair_spearman": ordered,
                "queries": len(self.queries),
                "ndcg_10": self.ndcg,
            }
        return values

    def __str__(self) -> str:
        values = self.to_json()
        compared, texts = values["compared_texts"], self.texts
        lines = [
            f"{counted(texts, self.inputs)}, {counted(self.tokens, 'tokens')} ({self.cut:,} cut): "
            f"vectors of {self.width}"
        ]
        if compared:
            lines.append(
                f"cosine of golden and float  mean {values['mean_cosine']:.5f}, worst "
                f"{values['worst_cosine']:.5f} ({counted(1, self.inputs)[2:]} "
                f"{values['worst_text']:,}), {counted(compared, self.inputs)}"
            )
        if values.get("nearest_same") is not None:
            lines.append(
                f"nearest neighbour           the same for {values['nearest_same']:.2%} of the "
                f"{compared:,}"
            )
        if values.get("pair_spearman") is not None:
            lines.append(
                f"order of their pairs        Spearman {values['pair_spearman']:.5f} with float"
            )
        if self.ndcg:
            found = ", ".join(f"{name} {value:.4f}" for name, value in self.ndcg.items())
            asked = counted(len(self.queries), "queries")
            lines.append(f"found by a third of itself  nDCG@{DEPTH} {found}, {asked}")
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
    asked: list[Tokens] = []
    number = 0
    while chunk := list(islice(reviews, CHUNK)):
        encoded = []
        present, rows = [review for review in chunk if review.present], []
        for review in chunk:
            number += 1
            if not review.present:
                continue
            rows.append(number)
            try:
                encoded.append(embedder.tokens(review.content, max_tokens=tokens))
            except InputError as error:
                raise TextError(f"text {number}: {error}") from None
        vectors = embedder.integers(encoded) if encoded else np.empty((0, result.width))
        if encoded and embedder.checkpoint is not None and result.texts < compared:
            count = min(compared - result.texts, len(encoded))
            result.floats.append(embedder.floats(encoded[:count]))
            result.integers.append(vectors[:count])
            result.rows += rows[:count]
            for place, review in enumerate(present[:count], result.texts):
                if len(asked) < QUERIES and (query := _query(embedder, review, tokens)):
                    asked.append(query)
                    result.queries.append(place)
        made = zip(encoded, vectors)
        for review in chunk:
            write(review, *(next(made) if review.present else (None, None)))
        result.texts += len(encoded)
        result.tokens += sum(len(one.ids) for one in encoded)
        result.cut += sum(one.dropped > 0 for one in encoded)
    if asked:
        right = np.array(result.queries)
        for name, run, documents in (
            ("float", embedder.floats, result.floats),
            ("golden", embedder.integers, result.integers),
        ):
            result.ndcg[name] = ndcg(run(asked), np.concatenate(documents), right, DEPTH)
    return result


def _query(embedder: Embedder, review: Review, tokens: int) -> Tokens | None:
    """The first third of a text's words; None of an image, of a short text, and of no token."""
    words = review.text.split()
    if review.image is not None or embedder.spec.given or len(words) < WORDS:
        return None
    try:
        return embedder.tokens(" ".join(words[: len(words) // 3]), max_tokens=tokens)
    except InputError:
        return None


@contextmanager
def writing(out: Path | None, width: int) -> Iterator[Write]:
    """What writes a text's vector to ``out``, which appears whole when the block ends, or not.

    A .npy holds float32 [n, width]; a .jsonl a line of JSON a text, seven decimals a number. A row
    without a text is not a number there, and null here.
    """
    if out is None:
        yield lambda *_: None
        return
    with files.replacing(out) as temporary, temporary.open("wb") as file:
        if out.suffix == ".npy":
            rows = _Rows(file, width)
            yield rows.write
            rows.end()
        else:
            yield lambda *one: file.write(_line(*one))


class _Rows:
    """A .npy whose number of rows is known at its end; NumPy's header leaves room for it."""

    def __init__(self, file: BinaryIO, width: int) -> None:
        self.file, self.width, self.rows = file, width, 0
        self._header()

    def _header(self) -> None:
        values = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self.file, values)

    def write(self, review: Review, tokens: Tokens | None, vector: Vectors | None) -> None:
        self.rows += 1
        vector = np.full(self.width, np.nan) if vector is None else vector
        self.file.write(vector.astype("<f4").tobytes())

    def end(self) -> None:
        self.file.seek(0)
        self._header()


def _line(review: Review, tokens: Tokens | None, vector: Vectors | None) -> bytes:
    line: dict[str, Any] = {"text": review.text, "embedding": None}
    if tokens is not None and vector is not None:
        line = {"text": review.text, "tokens": len(tokens.ids)}
        line["dropped_tokens"] = tokens.dropped
        line["embedding"] = [round(float(x), 7) for x in vector]
    return (json.dumps(line, ensure_ascii=False) + "\n").encode()


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
    add_embedder(result)
    add_json(result)
    add_columns(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: embed_command(parser().parse_args(arguments)))


def check_arguments(options: argparse.Namespace) -> None:
    """Raises ValueError for an output that cannot be written."""
    out = options.out
    if out is None:
        return
    if out.suffix not in KINDS:
        raise UserError(f"--out {out}: its name must end in {' or '.join(KINDS)}")
    if options.data is not None and out.resolve() == Path(options.data).resolve():
        raise UserError(f"--out {out} is the file that is read: name another one")


def texts(options: argparse.Namespace, read: str) -> Iterator[Review]:
    """The inputs of this kind that the options name; ValueError where there is none."""
    layout = replace(layout_of(options), pair="")
    if read == TEXTS and options.data in CORPORA:
        return iter(CORPORA[options.data](SPLIT))
    reviews = images.stream(options.data, inputs=read, names=(), layout=layout, empty=True)
    return chain(list(until_a_text(reviews, options.data)), reviews)


def embed_command(options: argparse.Namespace) -> int:
    check_arguments(options)
    read = inputs(options)
    options.data = options.data or images.usual(read, SENTENCES)
    reviews = texts(options, read)
    quantized, embedder = embedder_of(options)
    shown = iter(progress(reviews, "embedding", read))
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
