"""What a leader knows of one follower."""


class Progress:
    __slots__ = (
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_at_fetch",
        "log_start_offset",
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
        self.leader_end_at_fetch = 0

    def fetched(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A fetch from ``end_offset`` arrived: everything before it is there.

        A follower is caught up now if it asks for the leader's end; it was caught up at its last fetch if it
        has by now all that the leader had then. So steady small writes throw nobody out.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif end_offset >= self.leader_end_at_fetch and self.seen:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = end_offset
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_ms = now_ms
        self.seen = True
