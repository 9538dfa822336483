"""The settings of the replication modes: what a mode requires of a topic, its own defaults, and which
settings have no meaning in it.

A setting that a mode ignores is refused rather than stored: a user would rely on a protection that does not
exist. Each reason completes the sentence "… has no meaning in mode M: …".
"""

from collections.abc import Callable
from typing import Any

from tidelog.types import majority

ISR = "isr"
PRIMARY_BACKUP = "primary-backup"
QUORUM = "quorum"

DEFAULT = ISR
"""Of a topic that does not say, and of records from before topics did."""

INTERNAL = ISR
"""Of the internal topics: coordinators lead where the controllers say, and nowhere else."""

_NO_DEGRADING = "only primary-backup waits for a fixed number of copies that could be reduced"

WITHOUT_MEANING: dict[str, dict[str, str]] = {
    ISR: {"replication.degrade.after.ms": _NO_DEGRADING},
    PRIMARY_BACKUP: {
        "unclean.leader.election.enable": "there is no leader election; only the first replica leads",
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
    # Acknowledgements of a majority that loses its data are worth nothing, so they mean "on disk".
    QUORUM: {"flush.messages": 1, "unclean.leader.election.enable": False},
}
"""Defaults of a mode. They override broker-wide values, which were chosen without
the mode in mind; only the topic's own setting overrides them."""

MODES = DEFAULTS.keys()
"""All modes: a row in the tables here is one."""

LEAST_REPLICAS: dict[str, int] = {ISR: 1, PRIMARY_BACKUP: 1, QUORUM: 3}
"""With fewer replicas the mode has no advantage over another one."""


COPIES: dict[str, Callable[[int, int], int]] = {
    ISR: min,
    PRIMARY_BACKUP: min,
    QUORUM: lambda minimum, replicas: majority(replicas),
}
"""How many replicas hold an acknowledged record, by ``min.insync.replicas`` and the number of replicas."""
