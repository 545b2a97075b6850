"""What a board can be asked: what it is, to take an image, to run sequences."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from boards.host.link import Link, LinkError, RefusedError
from boards.protocol import ALIGNMENT, PROBLEMS, Info, Kind, Problem, Refusal

WINDOW = 8
"""WRITEs under way at a time: more than lie in the buffers of a USB bridge."""
LOADS = 3
"""How often an image is loaded whole before that ends it."""
ATTEND, ENDS = 1 << 25, 1 << 26

WHY = {int(problem): text for problem, text in PROBLEMS.items()}

#: Of the accelerator, by its code.
INFERENCE = (
    *("no error", "the stream is none that it knows", "the stream in memory is damaged"),
    *("the model or sequence exceeds its limits", "the stream ends early"),
    *("the stream goes on after its end", "more tokens than model or accelerator take"),
    *("a token's id or type is beyond its table", "no token may be attended to", "aborted"),
    *("it made no progress", "a row of the embedding table ended early or late"),
    *("the memory answered with an error", "the image's addresses cannot be used"),
)
OF_A_SEQUENCE = (6, 7, 8, 11)
"""Those codes that are of one sequence of a batch."""

Ids = Sequence[int]


class BoardError(ValueError):
    """The board cannot do what it was asked; the message says why and what to do."""


class InferenceError(BoardError):
    """The accelerator ended with an error.

    `sequence` is the place of the sequence that it is of; None where it is of none, or of one that
    was not sent.
    """

    def __init__(self, code: int, sequence: int | None) -> None:
        self.code, self.sequence = code, sequence
        why = INFERENCE[code] if code < len(INFERENCE) else "a code that is unknown"
        super().__init__(f"the accelerator ended with error {code}: {why}")


@dataclass(frozen=True)
class Answer:
    """The logits of each sequence, int32, and the clock cycles that they took.

    They are [labels], or [tokens, labels] of a model with a class for every token.
    """

    logits: tuple[np.ndarray, ...]
    cycles: int


class Board:
    """The board at the other end of a link."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def info(self) -> Info:
        """What it is and which image it uses.

        Raises
        ------
        BoardError
            It speaks another version of the protocol.
        LinkError
            It does not answer.
        """
        try:
            return Info.from_bytes(self.link.ask(Kind.INFO))
        except RefusedError as error:
            raise self._refused(error) from None
        except ValueError as error:
            raise BoardError(str(error)) from None

    def require(self, model: bytes, named: str) -> None:
        """Nothing where the board has the image of a model.

        Parameters
        ----------
        model
            Its `golden.identity`.
        named
            What it is called in a message.

        Raises
        ------
        BoardError
            It has none, or that of another model.
        LinkError
            It does not answer.
        """
        info = self.info()
        if info.problem is not Problem.NONE:
            raise self._refused(RefusedError(Refusal.IMAGE, info.problem))
        if info.model != model:
            raise BoardError(
                f"the board has the image of model {info.model.hex()}, {named} is model "
                f"{model.hex()}: load the image of this one, `python -m rtl.compile --image FILE` "
                "writes it, or name the other with --quantized"
            )

    def load(self, image: bytes, told: Callable[[int], None] = lambda done: None) -> int:
        """Send an image and have it used; how often it had to be sent.

        A board that was reset or unplugged while the image came has lost a part of it: what it
        then says of the image is the reason to send it again.

        told
            Called with the number of bytes that have arrived.

        Raises
        ------
        BoardError
            The memory is too small, or the board refuses the image.
        LinkError
            It does not answer.
        """
        info = self.info()
        if len(image) > info.memory_bytes:
            raise BoardError(
                f"the image has {len(image):,} bytes, the board's memory {info.memory_bytes:,}: "
                "take a smaller model"
            )
        piece = (info.longest - 4) // ALIGNMENT * ALIGNMENT
        padded = image + bytes(-len(image) % ALIGNMENT)
        for load in range(1, LOADS + 1):
            try:
                writes = (
                    (Kind.WRITE, struct.pack("<I", at) + padded[at : at + piece])
                    for at in range(0, len(padded), piece)
                )
                for count, _ in enumerate(self.link.ask_all(writes, WINDOW), 1):
                    told(min(count * piece, len(image)))
                # The board reads all of it once, which takes a while.
                self.link.ask(Kind.USE, seconds=self.link.seconds + len(image) / 1e6)
                return load
            except RefusedError as error:
                broken = (Problem.HEADER, Problem.STREAM, Problem.ROWS, Problem.EMPTY)
                if load < LOADS and error.code == Refusal.IMAGE and error.detail in broken:
                    continue
                raise self._refused(error) from None
        raise AssertionError("the last load returns or raises")

    def run(
        self,
        sequences: Sequence[tuple[Ids, Ids]],
        labels: int,
        seconds: float | None = None,
        *,
        every: bool = False,
    ) -> Answer:
        """The logits of a batch, all tokens of it attended to.

        sequences
            Ids and types of each; together they are at most what the board takes
            (`boards.host.batches`).
        labels
            Of the model: how many logits each has to have.
        every
            Each token of it has as many.

        Raises
        ------
        InferenceError
            The accelerator refuses the batch, or one sequence of it.
        BoardError
            There is no image, or one with another number of labels.
        LinkError
            The board does not answer, or with something that is no answer.
        """
        words: list[int] = []
        for ids, types in sequences:
            if words:
                words[-1] |= ENDS
            words += [int(i) | int(t) << 24 | ATTEND for i, t in zip(ids, types, strict=True)]
        try:
            reply = self.link.ask(Kind.RUN, struct.pack(f"<{len(words)}I", *words), seconds)
        except RefusedError as error:
            if error.code == Refusal.INFERENCE:
                code, place = error.detail & 0xFF, error.detail >> 16
                is_known = code in OF_A_SEQUENCE and place < len(sequences)
                raise InferenceError(code, place if is_known else None) from None
            raise self._refused(error) from None
        if len(reply) < 8 or len(reply) % 4:
            raise LinkError(f"the board's answer has {len(reply)} bytes: no cycles and logits")
        logits = np.frombuffer(reply, "<i4", offset=4)
        shapes = [(len(ids), labels) if every else (labels,) for ids, _ in sequences]
        *ends, count = np.cumsum([int(np.prod(shape)) for shape in shapes])
        if len(logits) != count:
            raise BoardError(
                f"the board answers with {len(logits)} logits to a batch of {len(sequences)}, this "
                f"model has {labels} classes: load its image, or name the other model with "
                "--quantized"
            )
        cycles = int.from_bytes(reply[:4], "little")
        parts = zip(np.split(logits, ends), shapes, strict=True)
        return Answer(tuple(part.reshape(shape) for part, shape in parts), cycles)

    def _refused(self, error: RefusedError) -> Exception:
        """The refusal in words."""
        code, detail = error.code, error.detail
        if code == Refusal.IMAGE:
            why = WHY.get(detail, f"problem {detail}")
            return BoardError(
                f"the board has no image to use: {why}; "
                "`python -m boards.host.load IMAGE` loads one"
            )
        if code == Refusal.LENGTH:
            return BoardError(
                f"the board takes no request of {detail} bytes: the sequence is too long for it"
            )
        if code == Refusal.ADDRESS:
            return BoardError(f"the board has no memory at {detail:#x}")
        if code == Refusal.KIND:
            return BoardError(
                f"the board does not know requests of kind {detail}: use a host program and a "
                "bitstream of one version"
            )
        return BoardError(str(error))
