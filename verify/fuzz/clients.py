"""Odd sequences and odd clients: tokens, stray `last`, late rows, aborts, resets, registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from rtl.control.axi import ADDRESS_BITS
from rtl.interface.operation import Error
from rtl.interface.registers import ADDRESS
from sim.machine.inference import ABORT, START, Action, After, Client, Event, Packets
from tb.packing import ATTEND_BIT, ENDS_BIT
from verify.fuzz.streams import STREAMS
from verify.fuzz.subject import POOL, Run, Sequence, Subject

CONTROL = ADDRESS["control"]
ADDRESSES = 1 << ADDRESS_BITS
INTERRUPT = ADDRESS["interrupt_enable"], ADDRESS["interrupt_pending"]
LENGTHY = 3000  # cycles that nearly every inference ends in

ABORTED = frozenset({Error.ABORTED})


def _tokens(run: Run, words: np.ndarray) -> Run:
    return run.but(tokens=Packets.whole(words.astype("<u4").tobytes(), 4), logits=None)


def sequence(rng: Random, subject: Subject, run: Run) -> Run:
    """A sound sequence of any length; the unused bits of its words are noise."""
    draw = np.random.default_rng(rng.getrandbits(32))
    found: Sequence = subject.sequence(rng.randint(1, subject.program.tokens), draw)
    changed = _tokens(run, found.words() | draw.integers(0, 32, found.ids.size) << 27)
    return changed.but(logits=subject.logits(found))


def batch(rng: Random, subject: Subject, run: Run) -> Run:
    """A sound batch of any lengths; the bit of the very last sequence's end is not needed."""
    draw = np.random.default_rng(rng.getrandbits(32))
    found = subject.batch(subject.mixed(draw), draw)
    words = found.words() | draw.integers(0, 32, found.ids.size) << 27
    words[-1] &= ~np.uint32(rng.getrandbits(1) << 26)
    return _tokens(run, words).but(logits=subject.logits(found))


def ends(rng: Random, subject: Subject, run: Run) -> Run:
    """Sequences that end somewhere else: too many, without a key, or run together."""
    words = run.words.copy()
    for _ in range(rng.randint(1, 4)):
        words[rng.randrange(words.size)] ^= np.uint32(ENDS_BIT)
    return _tokens(run, words)


def ids(rng: Random, subject: Subject, run: Run) -> Run:
    """Ids and types next to their limits, or anything."""
    words = run.words.copy()
    vocabulary = subject.model.shape.vocabulary
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(words.size)
        value = rng.choice((vocabulary - 1, vocabulary, (1 << 24) - 1, rng.getrandbits(24)))
        words[at] = value | rng.getrandbits(2) << 24
    return _tokens(run, words)


def mask(rng: Random, subject: Subject, run: Run) -> Run:
    """No key, or a single one."""
    words = run.words & ~np.uint32(ATTEND_BIT)
    if rng.random() < 0.3:
        words[rng.randrange(words.size)] |= np.uint32(ATTEND_BIT)
    return _tokens(run, words)


def lengths(rng: Random, subject: Subject, run: Run) -> Run:
    """Longer than model or configuration take, and next to it."""
    maximum = subject.config.tokens
    sizes = maximum, maximum + 1, 2 * maximum, 2 * maximum + 1, 5 * maximum
    words = np.resize(run.words, rng.choice((subject.program.tokens + 1, *sizes)))
    words[0] |= np.uint32(rng.choice((0, 1)) << 25)
    return _tokens(run, words)


def stray_last(rng: Random, subject: Subject, run: Run) -> Run:
    """`last` on further words; what is left begins the next inference, or is dropped."""
    name = rng.choice(("model", "tokens"))
    packets: Packets = getattr(run, name)
    last = bytearray(packets.last)
    for _ in range(rng.choice((1, 1, 2))):
        last[rng.randrange(len(last))] = 1
    changed = {name: Packets(packets.data, bytes(last))}
    return run.but(client=rng.choice((Client.NONE, Client.KEEP)), logits=None, **changed)


def without_last(rng: Random, subject: Subject, run: Run) -> Run:
    """A stream that stops somewhere without `last`; `abort` ends it."""
    name = rng.choice(("model", "tokens"))
    packets: Packets = getattr(run, name)
    words = rng.choice((0, len(packets.last), rng.randrange(len(packets.last))))
    changed = {name: Packets(packets.data[: words * packets.word_bytes()], bytes(words))}
    return run.but(client=Client.RESCUE, logits=None, **changed)


def late_rows(rng: Random, subject: Subject, run: Run) -> Run:
    """A slow memory, or one that is silent for a long time."""
    latency = rng.choice((1, 2, 7, 60, 300))
    return run.but(row_latency=latency, row_silence=rng.choice((0, rng.randrange(2000))))


def silent_rows(rng: Random, subject: Subject, run: Run) -> Run:
    """A memory that speaks only after `abort` was written."""
    return run.but(
        row_silence=1 << 30, client=Client.RESCUE, others=ABORTED, row_latency=rng.choice((1, 60))
    )


def _moment(rng: Random) -> int:
    return rng.choice((rng.randrange(12), rng.randrange(400), rng.randrange(LENGTHY)))


def abort(rng: Random, subject: Subject, run: Run) -> Run:
    """`abort` in any cycle, sometimes twice."""
    first = _moment(rng)
    cycles = [first] if rng.random() < 0.8 else [first, first + rng.randrange(1, 40)]
    events = tuple(Event(cycle, address=CONTROL, data=ABORT) for cycle in cycles)
    return run.but(
        events=events,
        others=ABORTED,
        row_latency=rng.choice((1, 2, 3, 20, 60)),
        client=rng.choice((Client.NONE, Client.KEEP)),
    )


def abort_and_start(rng: Random, subject: Subject, run: Run) -> Run:
    """`abort`, and `start` again and again from then on."""
    return abort(rng, subject, run).but(client=Client.HURRY)


def abort_at_a_word(rng: Random, subject: Subject, run: Run) -> Run:
    """`abort` next to a word of any stream: a row asked for, say, or a logit that leaves."""
    after, words = rng.choice(
        (
            (After.REQUEST, len(run.tokens.last) * 2),
            (After.ROWS, len(run.tokens.last) * 2 * run.row_words),
            (After.LOGITS, subject.model.shape.labels),
            (After.TOKENS, len(run.tokens.last)),
            (After.MODEL, len(run.model.last)),
        )
    )
    aborts = Event(rng.randrange(12), address=CONTROL, data=ABORT, after=after)
    return run.but(
        events=(replace(aborts, count=rng.randrange(words)),),
        others=ABORTED,
        row_latency=rng.choice((1, 1, 2, 3, 20)),
        client=rng.choice((Client.NONE, Client.KEEP)),
        seed=rng.choice((None, 1 + rng.getrandbits(31))),
    )


def abort_of_bad(rng: Random, subject: Subject, run: Run) -> Run:
    """`abort` of a malformed stream, in its run or in its drain."""
    return abort(rng, subject, STREAMS[rng.choice(list(STREAMS))](rng, subject, run))


def reset(rng: Random, subject: Subject, run: Run) -> Run:
    """A reset in any cycle."""
    event = Event(_moment(rng), Action.RESET, data=rng.choice((1, 1, 2, 5)))
    return run.but(events=(event,), row_latency=rng.choice((1, 2, 20)))


def registers(rng: Random, subject: Subject, run: Run) -> Run:
    """Register accesses of all kinds during a run; none of them may disturb it."""
    events = []
    for cycle in sorted(_moment(rng) for _ in range(rng.randint(1, 12))):
        if rng.random() < 0.5:
            events.append(Event(cycle, Action.READ, rng.randrange(ADDRESSES)))
            continue
        address = rng.choice((CONTROL, rng.randrange(ADDRESSES)))
        harmless = rng.choice((0, START, START | 4, 0xFFFFFFFC))
        strobe, data = rng.choice(((15, harmless), (1, harmless), (14, ABORT | START)))
        if address & ~3 in INTERRUPT:
            strobe = 14
        if address & ~3 != CONTROL:
            data = rng.getrandbits(32)
        events.append(Event(cycle, Action.WRITE, address, strobe, data))
    return run.but(events=tuple(events))


def interrupt(rng: Random, subject: Subject, run: Run) -> Run:
    """Enabled, disabled and acknowledged at any time, by a client that polls for the end."""
    events = []
    for cycle in sorted(_moment(rng) for _ in range(rng.randint(0, 8))):
        address, strobe = rng.choice(INTERRUPT), rng.choice((1, 15, 14))
        events.append(Event(cycle, Action.WRITE, address, strobe, rng.getrandbits(32)))
    return run.but(events=tuple(events), client=Client.POLL)


def both_bits(rng: Random, subject: Subject, run: Run) -> Run:
    """`start` and `abort` in one write: an abort while busy."""
    event = Event(_moment(rng), address=CONTROL, data=START | ABORT)
    return run.but(events=(event,), others=ABORTED)


def queued(rng: Random, subject: Subject, run: Run) -> Run:
    """The next inference's packets stand directly behind these: not a word of them may be taken."""
    other = subject.sound(rng.randrange(POOL))

    def behind(first: Packets, second: Packets) -> Packets:
        return Packets(first.data + second.data, first.last + second.last)

    both = behind(run.model, other.model), behind(run.tokens, other.tokens)
    return run.but(model=both[0], tokens=both[1], behind=other.logits, client=Client.KEEP)


def knock(rng: Random, subject: Subject, run: Run) -> Run:
    """`start` and `abort` in one write just after the end: nothing begins."""
    return run.but(client=Client.KNOCK)


def sound(rng: Random, subject: Subject, run: Run) -> Run:
    """Nothing is wrong."""
    return run


CLIENTS: dict[str, Callable[[Random, Subject, Run], Run]] = {
    "sound": sound,
    "sequence": sequence,
    "batch": batch,
    "ends": ends,
    "ids and types": ids,
    "mask": mask,
    "length": lengths,
    "stray last": stray_last,
    "no last": without_last,
    "late rows": late_rows,
    "rows after abort": silent_rows,
    "abort": abort,
    "abort and start": abort_and_start,
    "abort at a word": abort_at_a_word,
    "abort of a bad stream": abort_of_bad,
    "reset": reset,
    "registers": registers,
    "interrupt": interrupt,
    "start with abort": both_bits,
    "start with abort after the end": knock,
    "queued behind": queued,
}
