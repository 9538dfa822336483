"""The interface between the controller's decisions and the replicated log in which they are stored. The
deciding code does not depend on the implementation.
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
        """Everything committed so far. Handlers use it to answer requests."""

    @property
    def committed_offset(self) -> int:
        """Exclusive: the image contains everything before this offset."""

    @property
    def leader(self) -> int:
        """The broker with the active controller; -1 if it is not known."""

    def submit(self, decide: Decide, done: Done) -> None:
        """Append the records that ``decide`` returns for the newest image. ``done`` is called once they are
        committed and applied.

        ``decide`` sees all earlier decisions, committed or not, and refuses by raising a ``TidelogError``.
        Two requests for the same topic name are therefore decided one after the other, however slow the disk
        is.
        """
