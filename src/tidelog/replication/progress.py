"""What a leader knows about one follower."""


class Progress:
    __slots__ = (
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "log_start_offset",
        "mark_ms",
        "mark_offset",
        "seen",
    )

    def __init__(self, now_ms: int) -> None:
        # Exclusive: the follower holds everything before it, as durably as the topic requires.
        self.end_offset = 0
        self.log_start_offset = 0
        self.seen = False  # Whether it has fetched in this epoch. Before that, its end offset means nothing.
        self.fetched_ms = now_ms
        # When it last held everything that the leader had at that time. A new leader counts all followers as
        # caught up at first: otherwise it would begin by removing all members.
        self.caught_up_ms = now_ms
        # The leader's log end offset at an earlier time: a follower that has reached it is caught up as of
        # that time. The mark stays until it is reached, even if that takes many fetches.
        self.mark_offset = 0
        self.mark_ms = now_ms

    def fetched(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A fetch from ``end_offset`` arrived: the follower holds everything before it.

        A follower is caught up now if it fetches from the leader's log end, and as of the mark once it has
        reached the mark. So under steady writes a follower that is always slightly behind is not removed,
        even if each mark takes many fetches.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
            self._set_mark(leader_end_offset, now_ms)
        elif not self.seen:
            self._set_mark(leader_end_offset, now_ms)
        elif end_offset >= self.mark_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.mark_ms)
            self._set_mark(leader_end_offset, now_ms)
        self.end_offset = end_offset
        self.fetched_ms = now_ms
        self.seen = True

    def holds(self, end_offset: int) -> bool:
        """Whether it is known to hold everything before ``end_offset``."""
        return self.seen and self.end_offset >= end_offset

    def has_deleted(self, leader_start_offset: int) -> bool:
        """Whether it has deleted everything that the leader has. A deletion may have been acknowledged while
        the follower could not lead. It must learn of it before it can, or the records would return.
        """
        return self.log_start_offset >= leader_start_offset

    def lags(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it lacks something, and was last caught up too long ago."""
        return not self.holds(leader_end_offset) and now_ms - self.caught_up_ms > lag_max_ms

    def _set_mark(self, leader_end_offset: int, now_ms: int) -> None:
        self.mark_offset = leader_end_offset
        self.mark_ms = now_ms
