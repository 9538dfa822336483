"""What the fetches of one process have acknowledged, and what of it its disk must hold when the process ends.

A fetch acknowledges everything before its offset. What the replica drops afterwards, because its leader or
the repair of its log demands it, it need not hold.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from tidelog.replication.messages import FetchItem, PartitionKey


class HeldLog(Protocol):
    start_offset: int
    end_offset: int
    cuts: int


class Holder(Protocol):
    """A replica."""

    @property
    def log(self) -> HeldLog: ...


class _Fetch(NamedTuple):
    offset: int
    cuts: int  # how often the log had been truncated or restarted


class Acknowledged:
    def __init__(self) -> None:
        self._fetches: dict[PartitionKey, _Fetch] = {}  # the newest of each partition

    def sent(self, items: Iterable[FetchItem], replicas: Mapping[PartitionKey, Holder]) -> None:
        for item in items:
            self._fetches[item.key] = _Fetch(item.offset, replicas[item.key].log.cuts)

    def held(self, replicas: Mapping[PartitionKey, Holder]) -> dict[PartitionKey, int]:
        """Up to where the log of each partition must reach, whatever happens to the machine now."""
        return {
            key: min(fetch.offset, replicas[key].log.end_offset)  # It may have been truncated since.
            for key, fetch in self._fetches.items()
            if key in replicas and not _began_anew(fetch, replicas[key].log)
        }


def _began_anew(fetch: _Fetch, log: HeldLog) -> bool:
    """Whether nothing is left of what the fetch has acknowledged: the leader has deleted it since, or it was
    dropped with the damage before it. The log continues after it, and the next fetch, which waits for the
    sync, acknowledges that.
    """
    if log.start_offset > fetch.offset:
        return True
    return log.cuts > fetch.cuts and log.start_offset == log.end_offset
