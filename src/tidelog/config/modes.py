"""The replication modes as far as settings go: which can be chosen, and what has no meaning in one.

A setting that a mode ignores is refused rather than stored: whoever sets it believes in a protection that
is not there. Each reason completes the sentence "… has no meaning in mode M: …".
"""

from tidelog.config.kinds import Choice, ExplainedError, Raw

ISR = "isr"
PRIMARY_BACKUP = "primary-backup"
QUORUM = "quorum"

MODES = (ISR, PRIMARY_BACKUP, QUORUM)

AVAILABLE_MODES = frozenset({ISR})
"""Modes that this version can run."""

WITHOUT_MEANING: dict[str, dict[str, str]] = {
    ISR: {},
    PRIMARY_BACKUP: {
        "unclean.leader.election.enable": "nobody is elected there; the first replica leads or nobody does",
    },
    QUORUM: {
        "min.insync.replicas": "a write is acknowledged when a majority of the replicas has it",
        "unclean.leader.election.enable": "only a replica with every acknowledged record can win a vote",
    },
}


class Mode(Choice):
    """The replication mode of a topic."""

    def __init__(self) -> None:
        super().__init__(*MODES)
        self.allowed = ", ".join(sorted(AVAILABLE_MODES))

    def parse(self, raw: Raw) -> str:
        mode = super().parse(raw)
        if mode not in AVAILABLE_MODES:
            raise ExplainedError(f"the mode {mode} comes with a later version of Tidelog; use {self.allowed}")
        return mode
