"""The four topics of the demo: what each is called, and how it replicates."""

from typing import NamedTuple


class DemoTopic(NamedTuple):
    name: str
    title: str  # of its line
    mode: str
    replicas: tuple[int, ...]  # the first leads
    copies: int  # that an acknowledgement needs
    settings: dict[str, str]


def _topic(name: str, title: str, mode: str, replicas: tuple[int, ...], copies: int) -> DemoTopic:
    settings = {"replication.mode": mode}
    if mode != "quorum":
        settings["min.insync.replicas"] = str(copies)
    return DemoTopic(name, title, mode, replicas, copies, settings)


TOPICS = (
    _topic("isr", "isr", "isr", (1, 2, 3), 2),
    _topic("asynchronous", "primary-backup, asynchronous", "primary-backup", (1, 2), 1),
    _topic("double-write", "primary-backup, double write", "primary-backup", (1, 2), 2),
    _topic("quorum", "quorum", "quorum", (1, 2, 3), 2),
)
BROKERS = 3
