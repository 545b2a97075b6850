"""Answers requests: what `boards.protocol` says of the board's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import C, Cat, Elaboratable, Module, Mux, ResetInserter, Signal, Value, ValueLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from boards.gateware.chip import Chip
from boards.gateware.frames import Head
from boards.gateware.image import HASH_WORDS
from boards.gateware.payload import PayloadReader
from boards.gateware.sdram import Request
from boards.protocol import ALIGNMENT, INFO, REPLY, Info, Kind, Problem, Refusal
from rtl.primitives.memory import ReadPort

HASH_AT, PROBLEM_AT = INFO.size - 2 * HASH_WORDS, 1
ERROR_BYTES = 5
ALIGNED = ALIGNMENT.bit_length() - 1
"""Bits of an address that are 0."""


class Server(wiring.Component):
    """Takes a request that is held, has it done, and sends the reply.

    At power-up it has the image in the flash copied and checked. A WRITE leaves no image in use
    until the next USE.

    Parameters
    ----------
    chip
        The memory.
    info
        What INFO answers; problem, model and digest are those of the image in use.

    Members
    -------
    held, head, payload, release, damaged
        As of `FrameReceiver`, from the other side.
    reply : Out, stream of Head
    reply_payload : Out, stream of 8
        To `FrameSender`.
    ready
        The memory can be used.
    load, loading, found
        `start`, `busy` and `found` of `FlashLoader`.
    check, checking, problem, hash_index, hash_word
        `start`, `busy`, `problem`, `hash_index` and `hash_word` of `ImageCheck`.
    infer, inferring, tokens, words, error, sequence, logits, answer
        `start`, `busy`, `tokens`, `i`, `error`, `sequence`, `logits` and `o` of `Inference`.
    request : Out, stream of boards.gateware.sdram.Request
    write : Out, stream of 16
        Of WRITE.
    in_use
        There is an image to use.
    """

    def __init__(self, chip: Chip, length_bits: int, info: Info) -> None:
        self.chip, self.length_bits, self.info = chip, length_bits, info
        self.most = info.longest // 4
        super().__init__(
            {
                "held": In(1),
                "head": In(Head()),
                "payload": Out(ReadPort(range(self.most + 1), 32)),
                "release": Out(1),
                "damaged": In(1),
                "reply": Out(stream.Signature(Head())),
                "reply_payload": Out(stream.Signature(8)),
                "ready": In(1),
                "load": Out(1),
                "loading": In(1),
                "found": In(1),
                "check": Out(1),
                "checking": In(1),
                "problem": In(Problem),
                "hash_index": Out(range(HASH_WORDS)),
                "hash_word": In(16),
                "infer": Out(1),
                "inferring": In(1),
                "tokens": Out(range(self.most + 1)),
                "words": Out(stream.Signature(32)),
                "error": In(4),
                "sequence": In(16),
                "logits": In(16),
                "answer": In(stream.Signature(32)),
                "request": Out(stream.Signature(Request(chip, length_bits))),
                "write": Out(stream.Signature(16)),
                "in_use": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.reader = reader = ResetInserter(self.release)(PayloadReader(self.most + 1))
        payload = reader.o
        m.d.comb += [
            self.payload.address.eq(reader.payload.address),
            reader.payload.data.eq(self.payload.data),
            reader.words.eq(self.head.length >> 2),
            self.tokens.eq(self.head.length >> 2),
        ]
        # The image in use; one frame of damage or more that nobody was told of.
        problem, hurt = Signal(Problem, init=Problem.EMPTY), Signal()
        m.d.comb += self.in_use.eq(problem == Problem.NONE)
        with m.If(self.damaged):
            m.d.sync += hurt.eq(1)

        head, length = self.head, self.head.length
        reply = self.reply.payload
        code, detail = Signal(8), Signal(32)
        asked = Signal()  # by a frame that is held, not by power-up or damage
        place, write_left, upper = Signal(self.chip.address_bits), Signal(16), Signal()
        m.d.comb += [
            self.request.payload.write.eq(1),
            self.request.payload.address.eq(place),
            self.request.payload.last.eq(write_left - 1),
        ]

        def answer(bytes_: ValueLike) -> None:
            m.d.sync += [
                reply.kind.eq(head.kind | REPLY),
                reply.number.eq(head.number),
                reply.length.eq(bytes_),
            ]
            m.next = "REPLY"

        def refuse(why: Refusal, what: ValueLike) -> None:
            answer(ERROR_BYTES)
            m.d.sync += [reply.kind.eq(Kind.ERROR | REPLY), code.eq(why), detail.eq(what)]

        def request(kind: Kind, possible: ValueLike, then: str) -> None:
            with m.Case(kind):
                m.next = then
                with m.If(~Value.cast(possible)):
                    refuse(Refusal.LENGTH, length)

        with m.FSM(name="state"):
            with m.State("POWER_UP"):
                m.d.comb += self.load.eq(self.ready)
                with m.If(self.ready):
                    m.next = "LOAD"
            with m.State("LOAD"):
                with m.If(~self.loading & self.found):
                    m.next = "USE"
                with m.Elif(~self.loading):
                    m.next = "IDLE"
            with m.State("IDLE"):
                m.d.comb += reader.start.eq(self.held)
                m.d.sync += asked.eq(self.held)
                with m.If(self.held):
                    with m.Switch(head.kind):
                        request(Kind.INFO, length == 0, "INFO")
                        request(Kind.WRITE, (length > 4) & (length[:ALIGNED] == 4), "ADDRESS")
                        request(Kind.USE, length == 0, "USE")
                        request(Kind.RUN, (length != 0) & (length[:2] == 0), "RUN")
                        with m.Default():
                            refuse(Refusal.KIND, head.kind)
                with m.Elif(hurt):
                    m.d.sync += hurt.eq(0)
                    refuse(Refusal.DAMAGED, 0)
                    m.d.sync += reply.number.eq(0)
            with m.State("INFO"):
                answer(INFO.size)
            with m.State("ADDRESS"):
                self._address(m, payload, refuse)
                m.d.sync += [
                    place.eq(payload.payload >> 1),
                    write_left.eq((length - 4) >> 1),
                    upper.eq(0),
                ]
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                m.d.sync += problem.eq(Problem.EMPTY)
                with m.If(self.request.ready):
                    m.next = "WRITE"
            with m.State("WRITE"):
                moves = Signal()
                m.d.comb += [
                    self.write.valid.eq(payload.valid),
                    self.write.payload.eq(payload.payload.word_select(upper, 16)),
                    moves.eq(payload.valid & self.write.ready),
                    payload.ready.eq(self.write.ready & upper),
                ]
                with m.If(moves):
                    m.d.sync += [upper.eq(~upper), write_left.eq(write_left - 1)]
                    with m.If(write_left == 1):
                        # The next frame may be on its way.
                        m.d.comb += self.release.eq(1)
                        answer(0)
            with m.State("USE"):
                m.d.comb += self.check.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(~self.checking):
                    m.d.sync += problem.eq(self.problem)
                    m.next = "IDLE"
                    with m.If(asked):
                        answer(0)
                    with m.If(asked & (self.problem != Problem.NONE)):
                        refuse(Refusal.IMAGE, self.problem)
            with m.State("RUN"):
                m.d.comb += self.infer.eq(self.in_use)
                m.next = "INFER"
                with m.If(~self.in_use):
                    refuse(Refusal.IMAGE, problem)
            with m.State("INFER"):
                m.d.comb += [
                    self.words.payload.eq(payload.payload),
                    self.words.valid.eq(payload.valid),
                    payload.ready.eq(self.words.ready),
                ]
                with m.If(~self.inferring):
                    answer((self.logits << 2) + 4)
                    with m.If(self.error != 0):
                        refuse(Refusal.INFERENCE, Cat(self.error, C(0, 12), self.sequence))
            with m.State("REPLY"):
                m.d.comb += self.reply.valid.eq(1)
                with m.If(self.reply.ready):
                    m.d.comb += self.release.eq(asked & (reply.kind != Kind.WRITE | REPLY))
                    m.next = "IDLE"
        self._payload(m, problem, code, detail)
        return m

    def _address(
        self, m: Module, payload: Any, refuse: Callable[[Refusal, ValueLike], None]
    ) -> None:
        """The first word of a WRITE: where its bytes go, within the memory or refused."""
        address = payload.payload
        bits = self.chip.address_bits + 1
        end = Signal(33)
        m.d.comb += [end.eq(address + self.head.length - 4), payload.ready.eq(1)]
        with m.If(payload.valid):
            m.next = "ASK"
            with m.If(address[:ALIGNED].any() | (end > 1 << bits)):
                refuse(Refusal.ADDRESS, address)

    def _payload(self, m: Module, problem: Signal, code: Signal, detail: Signal) -> None:
        """The bytes of the reply's payload, by its kind."""
        out = self.reply_payload
        index = Signal(16)
        with m.If(self.reply.ready & self.reply.valid):
            m.d.sync += index.eq(0)
        with m.Elif(out.valid & out.ready):
            m.d.sync += index.eq(index + 1)
        m.d.comb += self.hash_index.eq((index - HASH_AT) >> 1)
        with m.Switch(self.reply.payload.kind):
            with m.Case(Kind.INFO | REPLY):
                known = self.info.to_bytes()
                m.d.comb += out.valid.eq(1)
                with m.If(index >= HASH_AT):
                    hashed = self.hash_word.word_select(index[0], 8)
                    m.d.comb += out.payload.eq(Mux(self.in_use, hashed, 0))
                with m.Elif(index == PROBLEM_AT):
                    m.d.comb += out.payload.eq(problem)
                with m.Else():
                    constants = Cat(*(C(byte, 8) for byte in known[:HASH_AT]))
                    m.d.comb += out.payload.eq(constants.word_select(index[:5], 8))
            with m.Case(Kind.ERROR | REPLY):
                m.d.comb += [
                    out.valid.eq(1),
                    out.payload.eq(Cat(code, detail).word_select(index[:3], 8)),
                ]
            with m.Case(Kind.RUN | REPLY):
                m.d.comb += [
                    out.valid.eq(self.answer.valid),
                    out.payload.eq(self.answer.payload.word_select(index[:2], 8)),
                    self.answer.ready.eq(out.ready & (index[:2] == 3)),
                ]
