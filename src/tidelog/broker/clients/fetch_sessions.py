"""Fetch sessions (KIP-227): a reader of many partitions names only what changed, and hears only of what
changed.

The number of sessions is bounded. When all slots are taken, a new session takes the place of the one that has
been quiet the longest, if that is long enough; otherwise the reader simply goes on without a session.
"""

from collections import OrderedDict

from tidelog.errors import ErrorCode
from tidelog.protocol.fetch import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchPartition, FetchRequest
from tidelog.protocol.produce import TopicKey

EVICTION_MS = 120_000  # a session used more recently than this is not taken away
_MAX_ID = 0x7FFFFFFF

PartitionKey = tuple[TopicKey, int]


class Remembered:
    """One partition of a session: what the reader wants and what it was last told."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the answer must mention the partition though it has no data; remembers what is told."""
        news = high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        return news


class FetchSession:
    __slots__ = ("epoch", "last_used_ms", "partitions", "session_id")

    def __init__(self, session_id: int, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH + 1  # the epoch the next request must carry
        self.last_used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, Remembered] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        for key, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((key, index), None)
        for key, wanted in request.topics:
            for partition in wanted:
                remembered = self.partitions.get((key, partition.partition))
                if remembered is None:
                    self.partitions[(key, partition.partition)] = Remembered(partition)
                else:
                    remembered.wanted = partition

    def served(self, key: PartitionKey) -> None:
        """Data was sent: the others come first next time, so that a busy partition starves nobody."""
        # A session that is used twice at once may have forgotten the partition while this answer waited.
        if key in self.partitions:
            self.partitions.move_to_end(key)


class FetchSessions:
    def __init__(self, slots: int, first_id: int = 0) -> None:
        """``first_id`` should differ with every start of a broker: otherwise a reader that missed the restart
        goes on in another reader's session.
        """
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the longest unused first
        self._last_id = first_id

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, now_ms: int) -> tuple[FetchSession | None, ErrorCode]:
        """The session a request belongs to, brought up to date; None when it wants or gets none."""
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return None, ErrorCode.NONE
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return self._create(request, now_ms), ErrorCode.NONE
        session = self._sessions.get(request.session_id)
        if session is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = session.epoch % _MAX_ID + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        session.update(request)
        return session, ErrorCode.NONE

    def _create(self, request: FetchRequest, now_ms: int) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        self._last_id = self._last_id % _MAX_ID + 1
        while self._last_id in self._sessions or self._last_id == NO_SESSION:
            self._last_id = self._last_id % _MAX_ID + 1
        session = FetchSession(self._last_id, now_ms)
        session.update(request)
        self._sessions[session.session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True
