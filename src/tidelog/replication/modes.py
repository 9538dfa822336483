"""The table of the modes: the policy of each, and what is attached to its replicas.

A mode is added by a row here, a policy, a succession (:mod:`tidelog.controller.successions`) and its settings
(:mod:`tidelog.config.modes`).
"""

from enum import Enum
from typing import NamedTuple

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.replication.attachments.deletions import Deletions, LoggedDeletions
from tidelog.replication.attachments.seal import NoSeal
from tidelog.replication.attachments.stand_in import AnyMember, AnyVoter, Backup, NoStandIn
from tidelog.replication.attachments.successors import NoSuccessors, Successors
from tidelog.replication.policies import BY_NAME, Policy
from tidelog.replication.sealing import Pausing, Sealing


class Leaders(Enum):
    """How leaders are chosen."""

    APPOINTED = "appointed"  # by the controllers
    ELECTED = "elected"  # by the replicas


class Mode(NamedTuple):
    """The defaults are the null objects."""

    policy: Policy
    leaders: Leaders = Leaders.APPOINTED
    seal: type[NoSeal] = NoSeal
    stand_in: type[NoStandIn] = NoStandIn
    successors: type[NoSuccessors] = NoSuccessors
    deletions: type[Deletions] = Deletions


MODES: dict[str, Mode] = {
    ISR: Mode(BY_NAME[ISR], stand_in=AnyMember, successors=Successors),
    PRIMARY_BACKUP: Mode(BY_NAME[PRIMARY_BACKUP], seal=Pausing, stand_in=Backup),
    QUORUM: Mode(
        BY_NAME[QUORUM], Leaders.ELECTED, seal=Sealing, stand_in=AnyVoter, deletions=LoggedDeletions
    ),
}
"""``replication.mode`` → its row."""

METADATA = Mode(BY_NAME[QUORUM], Leaders.ELECTED, deletions=LoggedDeletions)
"""The metadata log. Its mode never changes, and clients do not read it."""
