"""The chapter of the data sheet for those who drive the accelerator, from reset to logits."""

from __future__ import annotations

from rtl.compile import image
from rtl.control.embedding import MAX_PENDING
from rtl.control.watchdog import patience
from rtl.dma.bus import Bus
from rtl.interface.command import MAGIC
from rtl.interface.config import Config
from rtl.interface.options import options_of

BOTH = """\
bert2rtl compiles a model for this accelerator:

    python -m rtl.compile {options} --quantized DIR -o model.bin

This writes the command stream (`model.bin`) and the embedding rows (`model.rows.bin`), or with
`--image FILE` one file of both for memory. Read `id` ({magic}), `version`, `lanes` and `columns`
once: a stream is for one N and one M.

| bits of a token | name | meaning |
| --- | --- | --- |
| 23:0 | id | of the token in the model's vocabulary |
| 24 | type | its segment, 0 or 1: 1 for the second text of a pair |
| 25 | attend | 1: the tokens of its sequence attend to it; 0: none does, as with padding |
| 26 | ends | 1: the last token of its sequence; the next word begins another one of a batch |
| 31:27 | | ignored |

A sequence without any attend bit ends with NO_KEY. The last word ends its sequence in any case.

**Rows.** A token takes two rows: its own, then that of its position and type. The table has the
rows of the tokens, then of the positions of type 0, then of type 1, without gaps. A row has
ceil(channels / {lanes}) words of {lanes} bytes: the channels of the embedding, in order, the last
word padded. Where values have 16 bits, a word of low bytes follows each word of high bytes.

**Logits.** int32, label 0 first, sequence after sequence. A model with a class for every token
gives the logits of token 0, then of token 1.

**Interrupt.** High from the end of an inference, good or bad, until 1 is written to
`interrupt_pending` or the next start. Then `status` has done, with error 0 where the logits are
complete, and `cycles` the clock cycles in which busy was set.

**Errors.** A failed inference shows no logit. Its code stays in `status` until the next start, and
`failed_sequence` says which sequence of a batch it was. TIMEOUT comes after {patience:,} cycles.
The next start finds everything as after a reset.

**Abort.** 2 in `control` ends the inference under way with ABORTED. From the first logit on it is
too late: the logits are completed, and the code is 0.

**SLVERR.** A write that has no effect is answered with SLVERR: to a register that takes none,
without the strobe of byte 0, or a start while busy. An abort while idle and an acknowledgement of
nothing are OKAY, as is every read; what is not listed reads as 0.

"""
STREAMS = """\
**An inference.** All streams move at the same time: none may wait until another one has ended.

1. Write 1 to `control`. Words that are offered earlier wait for this.
2. `s_axis_model`: all of `model.bin`, in every inference; {columns} bytes a word, tlast at the end.
3. `s_axis_tokens`: the words of the tokens, tlast with the last.
4. `m_axis_request`: each number that is taken asks for a row, which comes by `s_axis_rows` in the
   order of the requests, tlast with its last word: a row of another length ends the inference with
   ROW. Up to {pending} words and a row are asked for before they are taken.
5. `m_axis_logits`: take the logits, tlast with the last of each sequence.
6. `interrupt`: read `status`, then write 1 to `interrupt_pending`.

`example/example.v` of the bench does all of this for one inference, in plain Verilog.

One cycle of `rst` ends whatever is under way. Reset what answers the requests with it, or let it
answer none from before. After a failure the rest of the stream and of the tokens is taken and
dropped up to tlast. After an abort neither is taken any further, and the next start takes what they
offer as a beginning: withdraw or finish what was being sent before it. Busy ends when all rows have
come that were asked for.
"""
DMA = """\
**An inference.**

1. Write addresses and sizes of stream and rows; they stay. Row r lies at `rows_address` +
   r · `row_bytes`. Whole beats are read: bytes around stream and rows may be anything.
2. Write the words of the tokens to `token`, the last to `token_last`, before the start or after it;
   `token_room` is how many fit. Those of the next inference may follow at once.
3. Write 1 to `control`.
4. `interrupt`: read `status`, then `logit` as often as `logits_waiting` says, and write 1 to
   `interrupt_pending`. A start drops what was not read.

The bench does all of this.

One cycle of `rst` ends whatever is under way. Reset the bus with it, so that no beat comes that was
asked for before. ADDRESS ends an inference at its start, before anything is read. Each start takes
one packet of tokens, up to `token_last`: what a failed one has not taken is dropped later. An abort
drops all tokens that were written, also while idle. Busy ends when all beats have come that were
asked for. From 0x80 on SLVERR also answers a write without all strobes, to an address or a size
while busy, and a token for which there is no room.

**Image.** It may lie at any multiple of 64 bytes. Numbers are little-endian, offsets count from its
first byte.

{image}
"""


def programming(config: Config, bus: Bus | None) -> str:
    """Text of the chapter."""
    lines = (image.__doc__ or "").splitlines()
    return (BOTH + (STREAMS if bus is None else DMA)).format(
        options=" ".join(
            [f"--lanes {config.lanes}", *options_of(config, Config(lanes=config.lanes))]
        ),
        lanes=config.lanes,
        columns=config.tile_columns,
        pending=MAX_PENDING,
        patience=patience(config),
        magic=f"{MAGIC:#x}",
        image="\n".join(line for line in lines if line.startswith("|")),
    )
