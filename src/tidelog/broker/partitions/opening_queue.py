"""Opens and drops partitions a few at a time, so that requests are handled in between. Drops come first: a
new log must not find the files of an old log with the same name.
"""

from collections import deque
from collections.abc import Callable
from uuid import UUID

from tidelog.broker.partitions.partition import Partition
from tidelog.services import Services

PARTITIONS_PER_SLICE = 16  # about 5 ms of creating files on an idle disk
SLICE_MS_MAX = 4  # A slice ends early if the file system is slow.


class OpeningQueue:
    def __init__(
        self,
        services: Services,
        open_one: Callable[[UUID, int], None],
        drop_one: Callable[[UUID, Partition], None],
    ) -> None:
        self._services = services
        self._open_one = open_one
        self._drop_one = drop_one
        self._to_drop: deque[tuple[UUID, Partition]] = deque()
        self._to_open: deque[tuple[UUID, int]] = deque()
        self._next_slice_is_due = False
        self.slices = 0  # so far
        self._when_open: list[Callable[[], None]] = []

    def drop(self, topic_id: UUID, partition: Partition) -> None:
        self._to_drop.append((topic_id, partition))

    def open(self, topic_id: UUID, index: int) -> None:
        self._to_open.append((topic_id, index))

    def begin(self) -> None:
        """Run the first slice immediately."""
        if not self._next_slice_is_due:
            self._do_slice()

    @property
    def all_open(self) -> bool:
        return not self._to_open and not self._to_drop

    def when_open(self, callback: Callable[[], None]) -> None:
        if self.all_open:
            callback()
        else:
            self._when_open.append(callback)

    def _do_slice(self) -> None:
        self._next_slice_is_due = False
        self.slices += 1
        until_ms = self._services.uptime_ms() + SLICE_MS_MAX
        for _ in range(PARTITIONS_PER_SLICE):
            if self._to_drop:
                self._drop_one(*self._to_drop.popleft())
            elif self._to_open:
                self._open_one(*self._to_open.popleft())
            else:
                break
            if self._services.uptime_ms() >= until_ms:
                break
        if not self.all_open:
            self._next_slice_is_due = True
            self._services.soon(self._do_slice)
            return
        callbacks, self._when_open = self._when_open, []
        for callback in callbacks:
            callback()
