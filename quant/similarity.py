"""`python -m quant.similarity "a" "b"`: how near two texts are, by golden and by float."""

import argparse
import sys
from collections.abc import Sequence

from cli import files
from cli.command import run_command
from cli.options import Parser, add_json

from quant.embedder import add_embedder, embedder_of
from quant.measure.vectors import cosines

EXAMPLES = """\
examples:
  python -m quant.similarity "A man plays a guitar." "Somebody makes music."
  python -m quant.similarity "Good film." "Bad film." --model my-embedder --json build/cosine.json
"""


def parser() -> Parser:
    result = Parser(
        "quant.similarity", "The cosine of two texts' embeddings, integer and float.", EXAMPLES
    )
    result.add_argument("first", help="a text")
    result.add_argument("second", help="the text that it is compared with")
    add_embedder(result)
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: similarity_command(parser().parse_args(arguments)))


def similarity_command(options: argparse.Namespace) -> int:
    _, embedder = embedder_of(options)
    texts = [
        embedder.tokens(text, max_tokens=options.tokens) for text in (options.first, options.second)
    ]
    models = {"golden": embedder.integers}
    if embedder.checkpoint is not None:
        models["float"] = embedder.floats
    found = {}
    for name, run in models.items():
        vectors = run(texts)
        found[name] = float(cosines(vectors[:1], vectors[1:])[0])
        print(f"{name:8}{found[name]:8.4f}")
    cut = sum(tokens.dropped for tokens in texts)
    if cut:
        print(f"{cut} tokens were cut")
    if options.json:
        tokens = [len(tokens.ids) for tokens in texts]
        files.write_json(options.json, {"cosine": found, "tokens": tokens, "dropped_tokens": cut})
    return 0


if __name__ == "__main__":
    sys.exit(main())
