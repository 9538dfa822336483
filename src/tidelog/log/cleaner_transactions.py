"""What compaction knows of transactions while it reads a log.

Batches come in log order. Records of aborted transactions never count: they hide no older value and are
removed in the first pass. A batch belongs to an aborted transaction only if it is between that transaction's
first batch and its marker: the producer's next transaction may commit, and its marker may have been removed
by an earlier pass. A marker stays as long as a batch that it ends exists, or a producer snapshot in which its
transaction is open; then it is removed by a later pass, after ``delete.retention.ms``.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable

from tidelog.log.aborted_index import AbortedTransaction
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.markers import Marker


class OpenInSnapshots:
    """The transactions that are open in a producer snapshot which the batches have passed.

    The producers' state may be rebuilt from any snapshot and the batches after it: in recovery, after a
    truncation. Without its marker, a transaction that is open in the snapshot would be open for ever then,
    and readers of committed records would get nothing after its first offset.
    """

    __slots__ = ("_open", "_read", "_upcoming")

    def __init__(self, offsets: Iterable[int], read: Callable[[int], Collection[int]]) -> None:
        """``read``: the producer ids with an open transaction in the snapshot at an offset. Each is read when
        the batches reach it, so that only one is in memory.
        """
        self._upcoming = deque(sorted(offsets))
        self._read = read
        self._open: set[int] = set()  # Producer ids without a marker since.

    def ends(self, producer_id: int, offset: int) -> bool:
        """Whether a marker at this offset ends one of them."""
        while self._upcoming and self._upcoming[0] <= offset:
            self._open.update(self._read(self._upcoming.popleft()))
        if producer_id not in self._open:
            return False
        self._open.remove(producer_id)
        return True


class CleanedTransactions:
    __slots__ = ("_aborted", "_committed", "_observed", "_snapshots", "_upcoming", "kept")

    def __init__(
        self, aborted: Iterable[AbortedTransaction], snapshots: OpenInSnapshots | None = None
    ) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}  # Those with records here, by producer id.
        self._observed: set[int] = set()  # Producer ids of those with a batch seen.
        self._committed: set[int] = set()  # Producer ids with batches in a transaction that was not aborted.
        self.kept: list[AbortedTransaction] = []  # Those whose markers stay: the new segment's index.
        self._snapshots = snapshots or OpenInSnapshots((), lambda _: ())

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0].first_offset <= offset:
            aborted = self._upcoming.popleft()
            self._aborted[aborted.producer_id] = aborted

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of this batch, which is not a marker, were aborted."""
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and header.base_offset < aborted.last_offset:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_something(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Whether a batch that this marker ends still exists, or a snapshot in which it is open."""
        if marker is None:
            return False
        is_open = self._snapshots.ends(header.producer_id, header.base_offset)
        return self._ends_a_batch(header, marker) or is_open

    def _ends_a_batch(self, header: BatchHeader, marker: Marker) -> bool:
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if marker.commits:
            ends = producer_id in self._committed
            self._committed.discard(producer_id)
            return ends
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._observed:
            return False
        self._observed.discard(producer_id)
        self.kept.append(aborted)
        return True
