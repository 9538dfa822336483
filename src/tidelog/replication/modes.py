"""The table of the modes: the policy of each, and what is attached to its replicas.

ARCHITECTURE.md lists everything that makes a mode.
"""

from enum import Enum
from typing import NamedTuple

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.replication.attachments.deletions import (
    CopiedDeletions,
    Deletions,
    LoggedDeletions,
    MemberDeletions,
)
from tidelog.replication.attachments.seal import NoSeal, Pausing, Sealing
from tidelog.replication.attachments.stand_in import AnyMember, AnyVoter, Backup, NoStandIn
from tidelog.replication.attachments.successors import NamedByOperator, NoSuccessors, Successors
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.policies.policy import Policy
from tidelog.replication.policies.primary_backup import PrimaryBackupPolicy
from tidelog.replication.policies.quorum import QuorumPolicy


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
    ISR: Mode(IsrPolicy(), stand_in=AnyMember, successors=Successors, deletions=MemberDeletions),
    PRIMARY_BACKUP: Mode(
        PrimaryBackupPolicy(),
        seal=Pausing,
        stand_in=Backup,
        successors=NamedByOperator,
        deletions=CopiedDeletions,
    ),
    QUORUM: Mode(QuorumPolicy(), Leaders.ELECTED, seal=Sealing, stand_in=AnyVoter, deletions=LoggedDeletions),
}
"""``replication.mode`` → its row."""

METADATA = Mode(MODES[QUORUM].policy, Leaders.ELECTED, deletions=LoggedDeletions)
"""The metadata log. Its mode never changes, and clients do not read it."""
