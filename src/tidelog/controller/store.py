"""The seam between what the controller decides and where its log lives.

The local implementation (one broker) writes and syncs its own log; the embedded quorum and ZooKeeper take its
place without the deciding code noticing.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import TidelogError

Decide = Callable[[ClusterImage], Sequence[MetadataRecord]]
Done = Callable[[TidelogError | None], None]


class MetadataStore(Protocol):
    @property
    def image(self) -> ClusterImage:
        """Everything committed so far. Handlers answer from it."""

    @property
    def committed_offset(self) -> int:
        """End of what the image holds."""

    @property
    def leader(self) -> int:
        """Where the active controller is; -1 when nobody knows."""

    def submit(self, decide: Decide, done: Done) -> None:
        """Append what ``decide`` makes of the newest image; ``done`` is called once it is committed and
        applied.

        ``decide`` sees everything decided before, committed or not, and refuses by raising a
        ``TidelogError``. Two wishes for the same topic name are therefore decided one after the other,
        whatever the disk does.
        """
