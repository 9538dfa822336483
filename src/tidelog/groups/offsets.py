"""Committed offsets of all groups of one partition of ``__consumer_offsets``.

There are valid offsets, and for each producer the pending offsets of its open transaction. The end of a
transaction makes its offsets valid or drops them. Everything here is already committed in the log. It is
applied in log order, both at run time and on replay.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Committed(NamedTuple):
    """A committed offset as in the log."""

    offset: int
    leader_epoch: int  # of the record before it; -1 if the client did not send it
    metadata: str
    commit_ms: int  # wall clock
    expire_ms: int = -1  # from old clients; -1: the broker's retention applies


_Topics = dict[str, dict[int, tuple[int, Committed]]]
"""By topic and partition: (position in log order, what was committed)."""


class OffsetStore:
    def __init__(self) -> None:
        self._groups: dict[str, _Topics] = {}
        self._pending: dict[int, dict[str, _Topics]] = {}  # by producer id
        self._order = 0

    # -- changes, in log order ---------------------------------------------------------

    def commit(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        self._order += 1
        topics = self._groups.setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = (self._order, committed)

    def commit_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: Committed
    ) -> None:
        """A transaction wrote an offset; it is valid when the transaction commits."""
        self._order += 1
        topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = (self._order, committed)

    def end_transaction(self, producer_id: int, committed: bool) -> list[str]:
        """End the transaction of a producer. Returns the groups whose offsets have changed."""
        pending = self._pending.pop(producer_id, None)
        if pending is None or not committed:
            return []
        for group_id, topics in pending.items():
            counting = self._groups.setdefault(group_id, {})
            for topic, partitions in topics.items():
                by_partition = counting.setdefault(topic, {})
                for partition, entry in partitions.items():
                    # A commit outside the transaction may have been written later.
                    if partition not in by_partition or by_partition[partition][0] < entry[0]:
                        by_partition[partition] = entry
        return list(pending)

    def delete(self, group_id: str, topic: str, partition: int) -> None:
        """Delete a valid offset, and pending ones, which existed when the deletion was written."""
        _remove(self._groups, group_id, topic, partition)
        for producer_id in list(self._pending):
            pending = self._pending[producer_id]
            _remove(pending, group_id, topic, partition)
            if not pending:
                del self._pending[producer_id]

    # -- queries -----------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        entry = self._groups.get(group_id, {}).get(topic, {}).get(partition)
        return None if entry is None else entry[1]

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, Committed]]:
        """(topic, partition, offset) of all valid offsets."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, (_, committed) in partitions.items():
                yield topic, partition, committed

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction wrote this offset, so that the valid offset may change soon."""
        return any(
            partition in pending.get(group_id, {}).get(topic, {}) for pending in self._pending.values()
        )

    def has_pending(self, group_id: str) -> bool:
        return any(group_id in pending for pending in self._pending.values())

    def has_any(self, group_id: str) -> bool:
        return group_id in self._groups or self.has_pending(group_id)

    def keys_of(self, group_id: str) -> list[tuple[str, int]]:
        """Every (topic, partition) that has an offset, pending or not."""
        found = dict.fromkeys((topic, partition) for topic, partition, _ in self.of_group(group_id))
        for pending in self._pending.values():
            for topic, partitions in pending.get(group_id, {}).items():
                found.update(dict.fromkeys((topic, partition) for partition in partitions))
        return list(found)

    def group_ids(self) -> list[str]:
        """Groups that have offsets, pending or not."""
        found = dict.fromkeys(self._groups)
        for pending in self._pending.values():
            found.update(dict.fromkeys(pending))
        return list(found)

    def topics(self) -> set[str]:
        """Topics that have an offset, pending or not."""
        found = {topic for topics in self._groups.values() for topic in topics}
        for pending in self._pending.values():
            found.update(topic for topics in pending.values() for topic in topics)
        return found

    def groups_with(self, topic: str) -> list[str]:
        """Groups that have an offset of a topic, pending or not."""
        found = dict.fromkeys(group_id for group_id, topics in self._groups.items() if topic in topics)
        for pending in self._pending.values():
            found.update(dict.fromkeys(group_id for group_id, topics in pending.items() if topic in topics))
        return list(found)

    def __len__(self) -> int:
        """The number of valid offsets."""
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())


def _remove(groups: dict[str, _Topics], group_id: str, topic: str, partition: int) -> None:
    """Leaves no empty dicts behind: a group without offsets is absent."""
    topics = groups.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
        if not topics:
            del groups[group_id]
