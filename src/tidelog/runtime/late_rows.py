"""The responses of one connection that are worked out after a wait, counted in rows.

Requests take no memory while they wait, but each response is worked out as a whole. Otherwise a client could
make the broker work out a thousand large responses at the same time.
"""

ROWS_MAX = 2_000  # about 2 MB


class LateRows:
    __slots__ = ("_count", "_holds_change")

    def __init__(self) -> None:
        self._count = 0
        self._holds_change = False

    def add(self, count: int) -> bool:
        """A response with so many rows will be worked out. Returns whether the connection has to be held
        because of it.
        """
        could_wait = self._count <= ROWS_MAX
        self._count += count
        return could_wait and self._count > ROWS_MAX

    def made(self, count: int) -> int:
        """A response is worked out. Returns how often the connection is to be resumed."""
        was_full = self._count > ROWS_MAX
        self._count -= count
        resumed = int(was_full and self._count <= ROWS_MAX)
        if self._holds_change and not self._count:
            self._holds_change = False
            resumed += 1
        return resumed

    def must_precede_change(self) -> bool:
        """Whether a request waits because it may change what these responses describe. If so, the connection
        has to be held until the last of them is made.
        """
        self._holds_change = self._count > 0
        return self._holds_change
