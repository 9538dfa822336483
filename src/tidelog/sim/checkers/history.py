"""What clients of one partition did and saw, and what the log says about it in the end.

Jepsen's list for queues, with its names: *lost write*, *duplicate*, *inconsistent offset* (one offset, two
values), *nonmonotonic poll* and *skipped poll* (a reader goes back, or skips records); and here also
*invented* (read but never written) and *reordered* (one producer's records out of order).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.watermarks import ANYWHERE, Watermarks


class Write(NamedTuple):
    """A value a producer has sent."""

    producer: int
    number: int  # its index among the producer's values for this partition
    acks: int
    idempotent: bool


class Told(NamedTuple):
    """A producer got an acknowledgement with this offset."""

    offset: int
    epoch: int  # of the leader that acknowledged
    safe: bool  # whether the record is committed then, according to the mode


class Session:
    """A reader, from where it began (or was reset) on."""

    __slots__ = ("began", "next_offset", "read", "reader")

    def __init__(self, reader: int, began: int) -> None:
        self.reader = reader
        self.began = began
        self.next_offset = began  # nothing before it may be read any more
        self.read: list[int] = []  # offsets, in order

    def cut(self, floor: int) -> "Session":
        """What was read before ``floor``, as a session of its own. This one continues at its reader's
        position: that offset may mean another record now.
        """
        before = Session(self.reader, min(self.began, floor))
        before.next_offset = floor
        before.read = [offset for offset in self.read if offset < floor]
        self.began, self.next_offset, self.read = ANYWHERE, 0, []
        return before


class PartitionHistory:
    def __init__(
        self,
        name: str,
        is_safe: Callable[[int], bool] = lambda acks: acks == -1,
        committed_end: Callable[[], int] = lambda: ANYWHERE,
    ) -> None:
        """``is_safe``: whether an acknowledgement with such acks means that the write is committed.
        ``committed_end``: after the last record that any node considered committed.
        """
        self._name = name
        self.is_safe = is_safe
        self._committed_end = committed_end
        self._watermarks: dict[int, Watermarks] = {}  # by reader
        self._damages: list[tuple[int, int]] = []  # (node, offset)
        self._written: dict[bytes, Write] = {}
        self._told: dict[bytes, Told] = {}
        self._seen: dict[int, bytes] = {}  # records read, or acknowledged as committed, by offset
        self._sessions: list[Session] = []
        self.reads = 0
        self.forgiven_ms = 0.0  # when a loss was last allowed; earlier responses do not count
        self._forgiven_from = ANYWHERE
        self._forgiven_epoch = -1
        self._unaware_epoch = -1  # A follower that knows no later one has heard of no leader since.
        self._ended_epoch = -1  # The last one that had ended then.
        self.shortened = False  # records may be deleted: by an operator or by retention
        self.read_from = 0  # Readers may have missed earlier records: they were deleted where they read.

    @property
    def acknowledged(self) -> int:
        return len(self._told)

    # --- while it happens -----------------------------------------------------------------------------------

    def sent(self, value: bytes, write: Write) -> None:
        self._written[value] = write

    def told(self, value: bytes, offset: int, epoch: int) -> None:
        told = self._told[value] = Told(offset, epoch, self.is_safe(self._written[value].acks))
        if told.safe:
            self._see(offset, value, "acknowledged")

    def begin(self, reader: int, offset: int) -> Session:
        """A reader starts at an offset: its first, the one it committed, or the one it was reset to."""
        session = Session(reader, offset)
        self._sessions.append(session)
        return session

    def told_watermark(
        self, reader: int, process: Any, broker: int, watermark: int, stable: int, agreed_epoch: int
    ) -> None:
        """A response to a reader names the high watermark and the last stable offset. ``agreed_epoch``: the
        last one whose leader the process is known to agree with.
        """
        if reader not in self._watermarks:
            self._watermarks[reader] = Watermarks(self._name, self._most)
            for damage in self._damages:
                self._watermarks[reader].damaged(*damage)
        binding_end = ANYWHERE if agreed_epoch > self._forgiven_epoch else self._forgiven_from
        self._watermarks[reader].told(process, broker, watermark, stable, binding_end)

    def _most(self) -> int:
        """After what may be committed. Followers may still hold what was given up."""
        return ANYWHERE if self.forgiven_ms else self._committed_end()

    def damaged(self, node: int, offset: int) -> None:
        """A replica may truncate records from ``offset`` on, and fetch them again: now, or when it finds the
        damage.
        """
        self._damages.append((node, offset))
        for watermarks in self._watermarks.values():
            watermarks.forget()
            watermarks.damaged(node, offset)

    def read(self, session: Session, entry: Entry) -> None:
        self.reads += 1
        if entry.value not in self._written:
            raise Violation(f"{self._name}: offset {entry.offset} was read as {entry.value!r}: invented")
        if session.began == ANYWHERE:
            session.began = entry.offset
        session.read.append(entry.offset)
        self._see(entry.offset, entry.value, "read")
        self.passed(session, entry.offset + 1)

    def passed(self, session: Session, next_offset: int) -> None:
        """A reader's new position. The last batch may have no records: one that ends a transaction is given
        up like any other, and a record may take its place.
        """
        session.next_offset = next_offset

    def _see(self, offset: int, value: bytes, how: str) -> None:
        known = self._seen.setdefault(offset, value)
        if known != value:
            raise Violation(
                f"{self._name}: inconsistent offset {offset}, {how} as {value!r}, before it was {known!r}"
            )

    def went_back(self, session: Session, offset: int, position: int) -> None:
        """A whole batch from before a reader's position: a client would drop it, a broker must
        not send it.
        """
        raise Violation(
            f"{self._name}: nonmonotonic poll, reader {session.reader} got offset {offset} at {position}"
        )

    def begins_at(self, session: Session, offset: int, start_offset: int) -> None:
        """A reader's position is before the log start."""
        if not self.shortened:
            raise Violation(
                f"{self._name}: reader {session.reader} stands at {offset}, and the log begins at "
                f"{start_offset}, though no records were deleted"
            )
        self.read_from = max(self.read_from, start_offset)

    def is_deleted(self, value: bytes) -> bool:
        """Whether readers may have missed it, because it was deleted."""
        if not self.read_from:
            return False
        told = self._told.get(value)
        return told is None or told.offset < self.read_from

    def out_of_range(self, session: Session, offset: int) -> None:
        """A leader does not know the position of a reader, which has only seen committed records."""
        if not self.forgiven_ms and offset >= session.began:
            raise Violation(f"{self._name}: reader {session.reader} was told that {offset} is out of range")

    def is_ghost(self, entry: Entry) -> bool:
        """A record that was given up may still be in the log of a follower that does not know of it."""
        return entry.offset >= self._forgiven_from and entry.epoch <= self._forgiven_epoch

    def is_unaware(self, follower_epoch: int | None) -> bool:
        """Whether a replica does not lead and has heard of no leader since records were given up."""
        return follower_epoch is not None and follower_epoch <= self._unaware_epoch

    def is_deposed(self, led_epoch: int | None) -> bool:
        """Whether a replica leads an epoch that had ended when records were given up: it does not know."""
        return led_epoch is not None and led_epoch <= self._ended_epoch

    def forgive(self, floor: int, leader_epoch: int, now_ms: float, leaderless_epoch: int = -1) -> None:
        """Everything from ``floor`` on may be lost and replaced. ``leader_epoch``: up to which epoch it was
        written. ``leaderless_epoch``: the last one that had ended when the loss was decided.
        """
        self.forgiven_ms = now_ms
        for watermarks in self._watermarks.values():
            watermarks.forget()
        self._forgiven_from = min(floor, self._forgiven_from)
        self._forgiven_epoch = max(leader_epoch, self._forgiven_epoch)
        self._unaware_epoch = max(leader_epoch, leaderless_epoch, self._unaware_epoch)
        self._ended_epoch = max(leaderless_epoch, self._ended_epoch)
        for offset in [offset for offset in self._seen if offset >= floor]:
            del self._seen[offset]
        for value in [value for value, told in self._told.items() if told.offset >= floor]:
            del self._told[value]
        for session in list(self._sessions):
            if session.next_offset > floor:
                self._sessions.append(session.cut(floor))

    # --- when it is over ------------------------------------------------------------------------------------

    def check(self, log: Sequence[Entry], start_offset: int, leader_epoch: int) -> None:
        """``log``: the leader's records at the end, from ``start_offset`` on."""
        found = {entry.offset: entry for entry in log}
        for offset, value in self._seen.items():
            if offset >= start_offset and (offset not in found or found[offset].value != value):
                raise Violation(f"{self._name}: lost write {value!r}, it was committed at {offset}")
        for value, told in self._told.items():
            if told.offset >= start_offset:
                self._check_told(value, told, found, leader_epoch)
        self._check_order(log)
        for session in self._sessions:
            self._check_session(session, log, start_offset)

    def _check_told(self, value: bytes, told: Told, found: dict[int, Entry], leader_epoch: int) -> None:
        """An acknowledgement from the leader alone holds until a leader that never had the record."""
        if told.safe:
            return
        entry = found.get(told.offset)
        if (entry is None or entry.value != value) and leader_epoch <= told.epoch:
            raise Violation(
                f"{self._name}: lost write {value!r}, acknowledged at {told.offset} in epoch {told.epoch}, "
                f"and no leader came after that"
            )

    def _check_order(self, log: Sequence[Entry]) -> None:
        last: dict[int, int] = {}  # producer → its newest number so far
        for entry in log:
            write = self._written.get(entry.value)
            if write is None:
                raise Violation(f"{self._name}: {entry.value!r} at {entry.offset} is invented")
            if not write.idempotent:
                continue  # Retries may double it and put the double after its successors.
            before = last.get(write.producer, -1)
            if write.number == before:
                raise Violation(f"{self._name}: duplicate {entry.value!r} at {entry.offset}")
            if write.number < before:
                raise Violation(f"{self._name}: reordered, {entry.value!r} lies behind number {before}")
            last[write.producer] = write.number
        self._check_acknowledged_order()

    def _check_acknowledged_order(self) -> None:
        """Acknowledged offsets are in the order of sending."""
        last: dict[int, tuple[int, int]] = {}
        for value, told in self._told.items():
            write = self._written[value]
            if not told.safe:
                continue  # The next leader may never have had the one before.
            number, offset = last.get(write.producer, (-1, -1))
            if write.number > number and told.offset <= offset:
                raise Violation(f"{self._name}: reordered, {value!r} at {told.offset} lies before {number}")
            last[write.producer] = max((number, offset), (write.number, told.offset))

    def _check_session(self, session: Session, log: Sequence[Entry], start_offset: int) -> None:
        """A reader has read everything between its start and its position."""
        expected = [entry.offset for entry in log if session.began <= entry.offset < session.next_offset]
        read = [offset for offset in session.read if offset >= start_offset]
        if expected != read:
            missing = sorted(set(expected) - set(read))
            raise Violation(f"{self._name}: skipped poll, reader {session.reader} never saw {missing[:5]}")
