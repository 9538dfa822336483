"""What a leader knows of one follower."""


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
        self.end_offset = 0  # Exclusive: the follower holds everything before, as durably as the topic asks.
        self.log_start_offset = 0
        self.seen = False  # Whether it has fetched in this epoch; before that its end offset means nothing.
        self.fetched_ms = now_ms
        # When it last held everything the leader had at that time. A new leader gives everybody the benefit
        # of the doubt, or it would begin by throwing out the whole set.
        self.caught_up_ms = now_ms
        # Where the leader's log ended at some time past: what the follower has to reach to be caught up as of
        # then. It stays until it is reached, be it by many fetches.
        self.mark_offset = 0
        self.mark_ms = now_ms

    def fetched(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A fetch from ``end_offset`` arrived: everything before it is there.

        A follower is caught up now if it asks for the leader's end, and as of the mark once it has reached
        it. So steady writes throw nobody out who stays a moment behind, however many fetches that moment is.
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

    def _set_mark(self, leader_end_offset: int, now_ms: int) -> None:
        self.mark_offset = leader_end_offset
        self.mark_ms = now_ms
