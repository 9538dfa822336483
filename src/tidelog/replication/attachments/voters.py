"""Who keeps the sets of voters that are in a log, where there are any."""

from typing import ClassVar

from tidelog.replication.attachments.attachment import Attachment


class NoVoters(Attachment):
    """No log but one whose replicas vote has sets of voters."""

    slot: ClassVar[str] = "voters"
