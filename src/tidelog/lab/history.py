"""What an experiment leaves behind: one event for each line of a file, as JSON.

Owns the format of the lines and the writing of them. Loads and faults (of the lab, a bench, a
program of your own) add events; ``tidelog pipeline indicators`` turns them into figures, and so does
:mod:`tidelog.lab.figures`. One clock tells all times of a run: :func:`now_us`.

============== ====== ==================================================================================
field          type   meaning
============== ====== ==================================================================================
kind           string one of the kinds below; needed
time_us        long   when it happened, microseconds since 1970; needed
run            string name of the experiment
mode           string replication mode, or whatever is compared within the run
producer       string who sent the record; with ``sequence`` it names the record
sequence       long   counts what this producer sent to this partition: 0, 1, 2, …
partition      int    where it went, or was read from
offset         long   the place it got there
sent_us        long   of ``acknowledged``, ``failed``, ``aborted``: when it was handed to the client
bytes          long   of ``acknowledged``: size of key and value; of ``usage``: resident memory
name           string of ``fault`` and ``healed``: what was done, such as ``kill -9 of broker 2``
topic          string where the event has one
reader         string of ``consumed``, ``committed`` and ``found``: the consumer group
transaction    long   of the record: counts this producer's transactions
broker         int    of ``leader``: who leads, -1 for none; of ``usage``: whose figures
cpu_us         long   of ``usage``: CPU time of the broker since it was started
============== ====== ==================================================================================

============== =========================================================================================
kind           meaning
============== =========================================================================================
acknowledged   the cluster confirmed the record; in a transaction, when that was committed
failed         the client gave up: the record may be there or not
aborted        the record's transaction was aborted: a consumer of committed records never sees it
received       read by the reader that reads everything at the end
consumed       read by a consumer group meanwhile. ``consumed-raw``: by one that also reads open transactions
committed      a group's offset, confirmed by the cluster
found          the offset that the cluster returned for the group
plain-write    a write of the second, plain client was acknowledged (:mod:`tidelog.lab.workload.plain`)
plain-read     a read of the second, plain client was answered
leader         who leads the partition, as of this moment
usage          what a broker process uses
fault, healed  something was broken, and undone
redundant      every replica is in sync again
============== =========================================================================================

A record is *lost* if it was acknowledged and never received; ``failed`` ones may turn up or not. So a history
is complete only if everything was read to its end after the last write.

A thread writes, so that measurements do not wait for the disk. It hands whole lines to the kernel at once: if
the process is killed, the last line may be torn and the few pending events are lost; all before them are
there. Memory is bounded: if the disk is slower than the events, adding one waits. None is ever dropped,
because a dropped acknowledgement would hide a loss.
"""

import contextlib
import os
import queue
import threading
import time
from pathlib import Path
from types import TracebackType

import msgspec

KINDS = (
    "acknowledged", "failed", "aborted", "received", "consumed", "consumed-raw", "committed", "found",
    "plain-write", "plain-read", "leader", "usage", "fault", "healed", "redundant",
)  # fmt: skip

PENDING_MAX = 20_000  # events in memory, some 5 MB
LINES_PER_WRITE_MAX = 1_000

_wall_minus_steady_ns = time.time_ns() - time.monotonic_ns()


def now_us() -> int:
    """Microseconds since 1970 by a clock that is never set back or forth while the process lives."""
    return (_wall_minus_steady_ns + time.monotonic_ns()) // 1000


def clock_offset_ns() -> int:
    """What :func:`now_us` adds to the machine's steady clock, which all processes share."""
    return _wall_minus_steady_ns


def share_clock(offset_ns: int) -> None:
    """Tell the time as the process does whose :func:`clock_offset_ns` this is, even if the wall clock was set
    in between.
    """
    global _wall_minus_steady_ns
    _wall_minus_steady_ns = offset_ns


class HistoryFailed(OSError):
    """One sentence: events are missing."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line. What an event has nothing to say about is left out of it."""

    kind: str
    time_us: int
    run: str
    mode: str
    producer: str | None = None
    sequence: int | None = None
    partition: int | None = None
    offset: int | None = None
    sent_us: int | None = None
    bytes: int | None = None
    name: str | None = None
    topic: str | None = None
    reader: str | None = None
    transaction: int | None = None
    broker: int | None = None
    cpu_us: int | None = None


class HistoryWriter:
    """Appends the events of one mode in one run to a file; any thread may add. Closing it waits until all of
    them are written.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        run: str,
        mode: str,
        topic: str | None = None,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self.path = Path(path)
        self._run, self._mode, self._topic = run, mode, topic
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._pending: queue.Queue[Event | None] = queue.Queue(pending_max)  # None: the end
        self._failure: OSError | None = None
        self._closed = False
        self._end_torn_line()
        self._thread = threading.Thread(target=self._write_all, name=f"history of {mode}", daemon=True)
        self._thread.start()

    def __enter__(self) -> "HistoryWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(OSError):  # the block's own error says more
                self.close()

    def add(
        self,
        kind: str,
        time_us: int,
        *,
        producer: str | None = None,
        sequence: int | None = None,
        partition: int | None = None,
        offset: int | None = None,
        sent_us: int | None = None,
        bytes: int | None = None,  # noqa: A002 — named like the field
        name: str | None = None,
        reader: str | None = None,
        transaction: int | None = None,
        broker: int | None = None,
        cpu_us: int | None = None,
    ) -> None:
        """OSError if an earlier event could not be written: a history with a hole proves nothing."""
        if kind not in KINDS:
            raise ValueError(f"Unknown event {kind!r}; use one of {', '.join(KINDS)}.")
        if self._closed:
            raise ValueError(f"The history {self.path} is closed.")
        self._check()
        self._pending.put(
            Event(
                kind, time_us, self._run, self._mode, producer, sequence, partition, offset, sent_us, bytes,
                name, self._topic, reader, transaction, broker, cpu_us,
            )
        )  # fmt: skip

    def fault(self, name: str) -> None:
        """Something is broken now."""
        self.add("fault", now_us(), name=name)

    def healed(self, name: str) -> None:
        """It is undone now."""
        self.add("healed", now_us(), name=name)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._pending.put(None)
        self._thread.join()
        os.close(self._file)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            why = self._failure.strerror or str(self._failure)
            raise HistoryFailed(f"The history {self.path} cannot be written: {why}") from self._failure

    def _end_torn_line(self) -> None:
        """The previous writer may have been killed: the first event must not continue its last line."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def _write_all(self) -> None:
        encode = msgspec.json.Encoder().encode
        ended = False
        while not ended:
            lines = []
            events = self._take()
            for event in events:
                if event is None:
                    ended = True
                    break
                lines.append(encode(event))
            if lines and self._failure is None:
                self._write(b"\n".join(lines) + b"\n")

    def _take(self) -> list[Event | None]:
        """What waits, at least one. After a failure it continues, so that writers do not wait for room."""
        events = [self._pending.get()]
        with contextlib.suppress(queue.Empty):
            while len(events) < LINES_PER_WRITE_MAX:
                events.append(self._pending.get_nowait())
        return events

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._failure = error
