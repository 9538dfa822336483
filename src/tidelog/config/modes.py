"""The replication modes as far as settings go: what a mode demands of a topic, what defaults it brings along,
and what has no meaning in it.

A setting that a mode ignores is refused rather than stored: whoever sets it believes in a protection that
is not there. Each reason completes the sentence "… has no meaning in mode M: …".
"""

from collections.abc import Callable
from typing import Any

from tidelog.types import majority

ISR = "isr"
PRIMARY_BACKUP = "primary-backup"
QUORUM = "quorum"

MODES = (ISR, PRIMARY_BACKUP, QUORUM)

_NO_DEGRADING = "only primary-backup waits for a fixed number of copies that could become fewer"

WITHOUT_MEANING: dict[str, dict[str, str]] = {
    ISR: {"replication.degrade.after.ms": _NO_DEGRADING},
    PRIMARY_BACKUP: {
        "unclean.leader.election.enable": "nobody is elected there; the first replica leads or nobody does",
    },
    QUORUM: {
        "min.insync.replicas": "a write is acknowledged when a majority of the replicas has it",
        "replication.degrade.after.ms": _NO_DEGRADING,
        "unclean.leader.election.enable": "only a replica with every acknowledged record can win a vote",
    },
}

DEFAULTS: dict[str, dict[str, Any]] = {
    ISR: {},
    PRIMARY_BACKUP: {"unclean.leader.election.enable": False},
    # A majority that forgets is no majority: its ok means "on disk".
    QUORUM: {"flush.messages": 1, "unclean.leader.election.enable": False},
}
"""Where a mode has a default of its own. It is stronger than a broker-wide one, which was chosen without
the mode in mind; only the topic itself can say otherwise."""

LEAST_REPLICAS: dict[str, int] = {ISR: 1, PRIMARY_BACKUP: 1, QUORUM: 3}
"""With fewer the mode would promise nothing that another one does not."""


COPIES: dict[str, Callable[[int, int], int]] = {
    ISR: min,
    PRIMARY_BACKUP: min,
    QUORUM: lambda minimum, replicas: majority(replicas),
}
"""How many replicas hold a write that was acknowledged, by ``min.insync.replicas`` and their number."""
