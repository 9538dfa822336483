"""The one interface of all attachments: what the driver tells them. Each event is ignored here."""

from typing import ClassVar


class Attachment:
    """The driver calls only what an attachment overrides where it is called for every batch: a replica pays
    nothing for what it does not have.
    """

    __slots__ = ()

    slot: ClassVar[str]  # which field of the driver holds it

    # --- for every batch ------------------------------------------------------------------------------------

    def arriving(self, batches: memoryview) -> None:
        """From a leader, and not in the log yet. Raises StorageError when they must not be appended."""

    def arrived(self) -> None:
        """They are in the log."""

    def appended(self, batches: memoryview) -> None:
        """In the log, from a leader or as one."""

    def taken(self) -> None:
        """All that a leader said with its records is done."""

    # --- now and then ---------------------------------------------------------------------------------------

    def cut(self, end_offset: int) -> None:
        """What came from there on is gone."""

    def skipped(self) -> None:
        """The log goes on at a later place: what was said in between is not known."""

    def leader_changes(self) -> None:
        """Another leader, or another epoch, is about to be followed."""

    def role_ended(self) -> None:
        """Another role, or the same in another epoch, has begun."""

    def failed(self) -> None:
        """The disk takes nothing more."""

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        """Another process speaks for it from now on."""

    def dropping(self) -> None:
        """Damaged records are about to be dropped that were acknowledged."""

    def dropped(self) -> None:
        """They are gone, and the log takes writes."""

    def stopped(self) -> None:
        """The replica goes away."""
