"""What compaction knows of transactions while it reads a log.

Batches come in log order. Records of aborted transactions never count: they hide no older value and are
removed in the first pass. A batch belongs to an aborted transaction only if it is between that transaction's
first batch and its marker: the producer's next transaction may commit, and its marker may have been removed
by an earlier pass. A marker stays as long as a batch that it ends exists; then it is removed by a later pass,
after ``delete.retention.ms``.
"""

from collections import deque
from collections.abc import Iterable

from tidelog.log.aborted_index import AbortedTransaction
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.markers import Marker


class CleanedTransactions:
    __slots__ = ("_aborted", "_committed", "_observed", "_upcoming", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}  # Those with records here, by producer id.
        self._observed: set[int] = set()  # Producer ids of those with a batch seen.
        self._committed: set[int] = set()  # Producer ids with batches in a transaction that was not aborted.
        self.kept: list[AbortedTransaction] = []  # Those whose markers stay: the new segment's index.

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
        """Whether a batch that this marker ends still exists."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if marker is None:
            return False
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
