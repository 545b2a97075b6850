"""The chapter of the data sheet for those who drive the accelerator, from reset to logits."""

from __future__ import annotations

from rtl.compile import image
from rtl.control.embedding import MAX_PENDING
from rtl.dma.bus import Bus
from rtl.interface.command import MAGIC
from rtl.interface.config import Config
from rtl.interface.options import options_of

FIRST = """\
{played}

**Files.** bert2rtl compiles a model for this accelerator:

    python -m rtl.compile {options} --quantized DIR -o model.bin

This writes the command stream (`model.bin`) and the embedding rows (`model.rows.bin`), or with
`--image FILE` one file of both for memory. With `--text TEXT` it prints the token words of a text.

**Reset.** One cycle of `rst` ends whatever is under way. {reset}

**Tokens.** A token is a word:

| bits | name | meaning |
| --- | --- | --- |
| 23:0 | id | of the token in the model's vocabulary |
| 24 | type | its segment, 0 or 1: 1 for the second text of a pair |
| 25 | attend | 1: the tokens of its sequence attend to it; 0: none does, as with padding |
| 26 | ends | 1: the last token of its sequence; the next word begins another one of a batch |
| 31:27 | | ignored |

A sequence without any attend bit ends with NO_KEY. The last word of all ends its sequence in any
case.
"""

STREAMS = """\
**An inference.** All streams move at the same time: none may wait until another one has ended.

1. Read `id` ({magic}), `version`, `lanes` and `columns` once: a stream is for one N and one M.
2. Write 1 to `control`. Words that are offered earlier wait for this.
3. `s_axis_model`: all of `model.bin`, in every inference; {columns} bytes a word, tlast at the end.
4. `s_axis_tokens`: the words of the tokens, tlast with the last.
5. `m_axis_request`: each number that is taken asks for a row, which comes by `s_axis_rows`.
6. `m_axis_logits`: take the logits.
7. `interrupt`: read `status`, then write 1 to `interrupt_pending`.

**Rows.** A token asks for two rows: its own, then that of its position and type. {rows}
Answer in the order of the requests, tlast with the last word of each row: a row of another length
ends the inference with ROW. Up to {pending} words and a row are asked for before they are taken.
"""
MEMORY = """\
**An inference.**

1. Read `id` ({magic}), `version`, `lanes` and `columns` once: a stream is for one N and one M.
2. Write addresses and sizes of stream and rows; they stay. The header of an image says where both
   lie in it.
3. Write the words of the tokens to `token`, the last to `token_last`, before the start or after it;
   `token_room` is how many fit. Those of the next inference may follow at once.
4. Write 1 to `control`.
5. `interrupt`: read `status`, then `logit` as often as `logits_waiting` says, and write 1 to
   `interrupt_pending`.

**Rows.** Row r lies at `rows_address` + r · `row_bytes`. {rows}
Whole beats are read: bytes around stream and rows may be anything.

**Image.** Numbers are little-endian, offsets count from the image's first byte.

{image}

It may lie at any multiple of 64 bytes.
"""
ROWS = """\
The
table has the rows of the tokens, then of the positions of type 0, then of type 1, without gaps. A
row has ceil(channels / {lanes}) words of {lanes} bytes: the channels of the embedding, in order,
the last word padded. Where its values have 16 bits, each word of high bytes is followed by one of
low bytes.
"""
LAST = """\
**Logits.** int32, label 0 first, sequence after sequence{packets}. A model with a
class for every token gives the logits of token 0, then of token 1.{dropped}

**Interrupt.** High from the end of an inference, good or bad, until 1 is written to
`interrupt_pending` or the next start. Then `status` has done, with error 0 where the logits are
complete, and `cycles` the clock cycles in which busy was set. Busy ends when all {awaited} have
come that were asked for.

**Errors.** A failed inference shows no logit. Its code stays in `status` until the next start, and
`failed_sequence` says which sequence of a batch it was. {rest}
The next start finds everything as after a reset.

**Abort.** 2 in `control` ends the inference under way with ABORTED. {aborted}
From the first logit on an abort is too late: the logits are completed, and the code is 0.

**SLVERR.** A write that has no effect is answered with SLVERR: to a register that takes none,
without the strobe of byte 0, or a start while busy{refused}.
An abort while idle and an acknowledgement of nothing are OKAY, as is every read; what is not listed
reads as 0.
"""


def programming(config: Config, bench: str, bus: Bus | None) -> str:
    """Text of the chapter.

    bench
        Folder of the bench, which without a bus has the example.
    """
    lanes, columns = config.lanes, config.tile_columns
    options = [f"--lanes {lanes}", *options_of(config, Config(lanes=lanes))]
    known = {
        "options": " ".join(options),
        "lanes": lanes,
        "columns": columns,
        "pending": MAX_PENDING,
        "magic": f"{MAGIC:#x}",
    }
    known["rows"] = ROWS.format(lanes=lanes).rstrip()
    lines = (image.__doc__ or "").splitlines()
    known["image"] = "\n".join(line for line in lines if line.startswith("|"))
    if bus is None:
        played = f"`{bench}example/example.v` does all of this for one inference, in plain Verilog."
        reset = "Reset what answers the\nrequests with it, or let it answer none from before."
        packets, dropped, awaited = ", tlast with the last of each", "", "rows"
        rest = "What is left of the stream\nand of the tokens is taken and dropped up to tlast."
        aborted = (
            "Neither input\nstream is taken any further, and the next start takes what they offer "
            "as a beginning: withdraw or\nfinish what was being sent before it."
        )
        refused = ""
    else:
        played = f"The bench in `{bench}` does all of this."
        reset = "Reset the bus with it, so\nthat no beat comes that was asked for before."
        packets, awaited = "", "beats"
        dropped = " A start drops what was not read."
        rest = (
            "ADDRESS ends it at its\nstart, before anything is read. Each start takes one packet "
            "of tokens, up to `token_last`: what a\nfailed one has not taken is dropped later."
        )
        aborted = "All tokens\nthat were written are dropped, also by an abort while idle."
        refused = (
            "; from 0x80 on without\nall strobes, to an address or a size while busy, or a token "
            "for which there is no room"
        )
    return "\n".join(
        [
            FIRST.format(played=played, reset=reset, **known),
            (STREAMS if bus is None else MEMORY).format(**known),
            LAST.format(
                packets=packets,
                dropped=dropped,
                awaited=awaited,
                rest=rest,
                aborted=aborted,
                refused=refused,
            ),
        ]
    )
