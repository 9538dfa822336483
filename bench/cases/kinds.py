"""The ways to replicate that the benches compare."""

from typing import NamedTuple


class Kind(NamedTuple):
    """One way to replicate."""

    name: str
    replicas: int
    acks: str
    settings: dict[str, str]


def _kind(name: str, replicas: int, acks: str, mode: str, **settings: str) -> Kind:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return Kind(name, replicas, acks, {"replication.mode": mode, **dotted})


ISR_ONE = _kind("isr, 2 replicas, acks=1", 2, "1", "isr", min_insync_replicas="1")
ASYNC = _kind("primary-backup, 1 copy of 2", 2, "all", "primary-backup", min_insync_replicas="1")
ISR_ALL = _kind("isr, 2 replicas, acks=all", 2, "all", "isr", min_insync_replicas="2")
DOUBLE = _kind("primary-backup, 2 copies of 2", 2, "all", "primary-backup", min_insync_replicas="2")

ISR_THREE = _kind("isr, 3 replicas, acks=all", 3, "all", "isr", min_insync_replicas="2")
SYNCED_THREE = _kind(
    "isr, 3 replicas, acks=all, flushed", 3, "all", "isr", min_insync_replicas="2", flush_messages="1"
)
QUORUM_UNSYNCED = _kind("quorum, 3 replicas, without sync", 3, "all", "quorum", flush_messages="1000000000")
QUORUM = _kind("quorum, 3 replicas", 3, "all", "quorum")
