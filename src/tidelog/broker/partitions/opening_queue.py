"""Assigns roles to partitions, and opens and drops partitions, a few at a time, so that requests are handled
in between. Roles come first: other brokers and clients wait for them. Drops come before opens: a new log must
not find the files of an old log with the same name.
"""

from collections import deque
from collections.abc import Callable
from uuid import UUID

from tidelog.broker.partitions.partition import Partition
from tidelog.services import Services

PARTITIONS_PER_SLICE = 16  # about 5 ms of creating files on an idle disk
ASSIGNED_PER_SLICE = 160  # about 2 ms, if no log is opened or dropped
OPEN_STEPS = ASSIGNED_PER_SLICE // PARTITIONS_PER_SLICE  # To open or drop one counts as so many assignments.
AT_ONCE = 40  # assignments; with more, the first slice waits for the next turn of the event loop
SLICE_MS_MAX = 4  # A slice ends early if the file system is slow.


class OpeningQueue:
    def __init__(
        self,
        services: Services,
        assign_one: Callable[[UUID, int], None],
        open_one: Callable[[UUID, int], None],
        drop_one: Callable[[UUID, Partition], None],
    ) -> None:
        self._services = services
        self._assign_one = assign_one
        self._open_one = open_one
        self._drop_one = drop_one
        self._to_assign: deque[tuple[UUID, int]] = deque()
        self._to_drop: deque[tuple[UUID, Partition]] = deque()
        self._to_open: deque[tuple[UUID, int]] = deque()
        self._next_slice_is_due = False
        self.slices = 0  # so far
        self._when_open: list[Callable[[], None]] = []

    def assign(self, topic_id: UUID, index: int) -> None:
        self._to_assign.append((topic_id, index))

    def drop(self, topic_id: UUID, partition: Partition) -> None:
        self._to_drop.append((topic_id, partition))

    def open(self, topic_id: UUID, index: int) -> None:
        self._to_open.append((topic_id, index))

    def begin(self) -> None:
        """A few steps are done immediately. More of them begin in the next turn of the event loop: applying
        the metadata that has led to them has used the time of this one.
        """
        if self._next_slice_is_due:
            return
        steps = len(self._to_assign) + OPEN_STEPS * (len(self._to_drop) + len(self._to_open))
        if steps > AT_ONCE:
            self._ask_for_turn()
        else:
            self._do_slice()

    def _ask_for_turn(self) -> None:
        self._next_slice_is_due = True
        self._services.in_turn(self._do_slice, urgent=True)

    @property
    def all_assigned(self) -> bool:
        return not self._to_assign

    @property
    def all_open(self) -> bool:
        """Nor is there anything to assign or to drop."""
        return not self._to_open and not self._to_drop and not self._to_assign

    def when_open(self, callback: Callable[[], None]) -> None:
        if self.all_open:
            callback()
        else:
            self._when_open.append(callback)

    def _do_slice(self) -> None:
        self._next_slice_is_due = False
        self.slices += 1
        try:
            self._take_some()
        finally:
            # Whatever went wrong with one partition: the others are waited for.
            if not self.all_open:
                self._ask_for_turn()
        if self.all_open:
            callbacks, self._when_open = self._when_open, []
            for callback in callbacks:
                callback()

    def _take_some(self) -> None:
        until_ms = self._services.uptime_ms() + SLICE_MS_MAX
        left = ASSIGNED_PER_SLICE
        while left > 0 and not self.all_open:
            if self._to_assign:
                self._assign_one(*self._to_assign.popleft())
                left -= 1
            else:
                self._open_or_drop()
                left -= OPEN_STEPS
            if self._services.uptime_ms() >= until_ms:
                break

    def _open_or_drop(self) -> None:
        if self._to_drop:
            self._drop_one(*self._to_drop.popleft())
        else:
            self._open_one(*self._to_open.popleft())
