"""How far this replica's log is committed, and how sure that is.

A leader advances it by the policy of its mode (``Replica._advance``). In every other case it moves here, and
each case is a method. The replica decides in which role and epoch an event counts.
"""

from tidelog.replication.effects import Commit, Effects
from tidelog.types import NO_EPOCH


class Watermark:
    __slots__ = ("_synced_before", "agreed", "committed_seen", "log_confirmed", "offset")

    def __init__(
        self,
        checkpointed: int,
        start_offset: int,
        end_offset: int,
        synced_end_offset: int,
        *,
        log_confirmed: bool,
    ) -> None:
        # Exclusive. Everything below is committed. A leader never moves it back. It moves back when
        #   - an unclean election gave the records up (:meth:`diverged`, :meth:`give_up_from`),
        #   - the leader's log differs, and no leader has confirmed ours since a power failure,
        #   - this is a voter that has lost data and is not readmitted: it follows whatever the leader has,
        #   - the log drops damaged records (:meth:`log_damaged_from`), which others still hold.
        # After a crash the log may end before the checkpointed value, or start after it: only committed
        # records are ever deleted.
        self.offset = min(max(checkpointed, start_offset), end_offset)
        # Whether this process has led or has had its log confirmed by a leader, or an earlier process had and
        # the machine has not lost power since. Until then the high watermark is only a checkpoint, and a
        # power failure may have replaced the records below it by older ones.
        self.log_confirmed = log_confirmed
        # Exclusive. Everything below was synced before this process started, so a power failure has not
        # changed it.
        self._synced_before = max(synced_end_offset, start_offset)
        # (epoch, end offset): in which epoch, and up to which offset, our log was last known to be a prefix
        # of its leader's. Forgotten at a restart: the log may be shorter then, or be what it was before a
        # truncation.
        self.agreed: tuple[int, int] = (NO_EPOCH, 0)
        # The highest high watermark that any leader has reported. It is beyond our log end while we lack
        # records.
        self.committed_seen = checkpointed

    def readable_end_offset(self, start_offset: int) -> int:
        """Exclusive: readers get the records below it, each of which is the one that was committed at its
        offset.

        After a power failure it is less than the high watermark until a leader confirms our log. A truncated
        tail may have reappeared, while the checkpointed high watermark refers to the records that replaced
        it. It is never below the log start offset, which may have risen since: there are no records before.
        """
        return self.offset if self.log_confirmed else min(self.offset, max(self._synced_before, start_offset))

    def lacks(self, end_offset: int) -> int:
        """Number of committed records, at least, that our log lacks; it ends at ``end_offset``."""
        return max(self.committed_seen - end_offset, 0)

    # --- a leader -------------------------------------------------------------------------------------------

    def led(self) -> None:
        """This replica leads: its log is the partition's log."""
        self.log_confirmed = True

    # --- messages from the leader ---------------------------------------------------------------------------

    def received(self, epoch: int, start_offset: int, end_offset: int, leader_high_watermark: int) -> Effects:
        """The leader's records are in our log, which has these offsets now. Adopt its high watermark as far
        as our log reaches.
        """
        readable = self.offset if self.log_confirmed else self.readable_end_offset(start_offset)
        self.log_confirmed = True
        self.agreed = (epoch, end_offset)
        self.committed_seen = max(self.committed_seen, leader_high_watermark)
        self.offset = max(self.offset, min(leader_high_watermark, end_offset))
        return [Commit(self.offset)] if self.offset > readable else []

    def accepted(self, start_offset: int) -> Effects:
        """The leader has confirmed that our log is a prefix of its own."""
        readable, self.log_confirmed = self.readable_end_offset(start_offset), True
        return [Commit(self.offset)] if self.offset > readable else []

    def diverged(self, end_offset: int, *, unclean: bool) -> None:
        """Our log diverges from the leader's at ``end_offset``."""
        self.offset = min(self.offset, end_offset)
        self.agreed = (NO_EPOCH, 0)
        if unclean:
            self.committed_seen = self.offset

    # --- without a leader -----------------------------------------------------------------------------------

    def confirmed_in(self, epoch: int, end_offset: int) -> int:
        """Up to where the leader of ``epoch`` has confirmed that our log is a prefix of its own, at least as
        far as the high watermark. The end of a log that it has not confirmed may never have been
        acknowledged.
        """
        agreed_epoch, confirmed = self.agreed
        return confirmed if agreed_epoch == epoch and self.offset < confirmed <= end_offset else self.offset

    def stand_in(self, committed: int) -> Effects:
        """There is no leader, and the policy considers everything before ``committed`` as committed."""
        if committed <= self.offset:
            return []
        self.offset = committed
        return [Commit(committed)]

    # --- lost records ---------------------------------------------------------------------------------------

    def give_up_missing(self, end_offset: int) -> int:
        """An unclean election made this replica the leader, so the records that it lacks do not count as
        committed any more. Returns how many they are, at least.
        """
        lost = self.lacks(end_offset)
        self.committed_seen = end_offset
        return lost

    def give_up_from(self, offset: int) -> int:
        """After an unclean election the leader's log ends at ``offset``, and later records do not count as
        committed any more. Returns how many of ours these are, at least.
        """
        lost = self.offset - offset
        self.offset = self.committed_seen = offset
        return lost

    def log_damaged_from(self, offset: int) -> None:
        """The log is about to drop everything from ``offset`` on. Those records stay committed on other
        replicas.
        """
        self.offset = min(self.offset, offset)

    def log_restarted(self, offset: int) -> None:
        """The log is empty and continues at ``offset``, the start of the leader's log: everything before is
        committed.
        """
        self.offset = max(self.offset, offset)
