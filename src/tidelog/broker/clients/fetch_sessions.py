"""Fetch sessions (KIP-227): requests and responses for many partitions contain only the changed ones.

The number of sessions is bounded. When all slots are taken, a new session replaces the least recently used
one if that was idle for ``EVICTION_MS``. Otherwise the consumer continues without a session. So does one that
requests too many partitions: they need not exist, and each request of a session may add some.

A session's id cannot be guessed, and a session serves only its owner: the principal and the address that
began it. To everybody else it does not exist. Otherwise any client could end the sessions of others, or read
with them. The owner may come back by another connection.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from tidelog.controller.topics import MAX_NAME_LENGTH
from tidelog.errors import ErrorCode
from tidelog.protocol.fetch import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchPartition, FetchRequest
from tidelog.protocol.produce import TopicKey
from tidelog.protocol.wire import ELEMENTS_MAX
from tidelog.security.principal import Principal

EVICTION_MS = 120_000  # a session that was used more recently is not evicted
PARTITIONS_MAX = 500_000  # of all sessions: about 200 MB
_MAX_ID = 0x7FFFFFFF

PartitionKey = tuple[TopicKey, int]
Owner = tuple[Principal, str]  # who is at the other end of the connection, and at which address


def unguessable_ids(secret: bytes) -> Callable[[], int]:
    """Numbers that only the owner of the random ``secret`` can foresee. None of them is drawn: otherwise what
    clients do would change all later random choices of a simulated run.
    """
    numbers = count()

    def new_id() -> int:
        number = next(numbers).to_bytes(8, "big")
        return int.from_bytes(hashlib.blake2b(number, key=secret, digest_size=8).digest(), "big")

    return new_id


class Remembered:
    """One partition of a session: what the consumer requests, and the offsets it was last sent."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the response must include the partition even without data. Remembers the offsets."""
        news = high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        return news


class FetchSession:
    __slots__ = ("epoch", "last_used_ms", "owner", "partitions", "session_id")

    def __init__(self, session_id: int, owner: Owner, now_ms: int) -> None:
        self.session_id = session_id
        self.owner = owner
        self.epoch = INITIAL_EPOCH + 1  # the next request must have this epoch
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
        """Data of this partition was sent. The others come first in the next response, so that a busy
        partition does not starve them.
        """
        # A concurrent request in the same session may have removed the partition while this one waited.
        if key in self.partitions:
            self.partitions.move_to_end(key)


class FetchSessions:
    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """``new_id`` draws a random number that is not negative. With a sequence, a consumer that did not
        notice a restart of the broker could also continue in the session of another consumer.
        """
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._partitions = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, owner: Owner, now_ms: int
    ) -> tuple[FetchSession | None, ErrorCode]:
        """The updated session of a request; None if it asks for none or none is available."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.owner != owner:
            session = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._end(session.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return None, ErrorCode.NONE
            return self._create(request, owner, now_ms), ErrorCode.NONE
        if session is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = session.epoch % _MAX_ID + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        if not self._update(session, request):
            # The consumer begins again with a complete request, and gets no session.
            self._end(session.session_id)
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session, ErrorCode.NONE

    def _create(self, request: FetchRequest, owner: Owner, now_ms: int) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        session = FetchSession(self._unused_id(), owner, now_ms)
        self._sessions[session.session_id] = session
        if self._update(session, request):
            return session
        self._end(session.session_id)
        return None

    def _unused_id(self) -> int:
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id() & _MAX_ID
        return session_id

    def _update(self, session: FetchSession, request: FetchRequest) -> bool:
        """Returns False if there is no room for these partitions."""
        if any(isinstance(key, str) and len(key) > MAX_NAME_LENGTH for key, _ in request.topics):
            return False
        before = len(session.partitions)
        session.update(request)
        size = len(session.partitions)
        self._partitions += size - before
        return size <= ELEMENTS_MAX and self._partitions <= PARTITIONS_MAX

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _evict(self, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms < EVICTION_MS:
            return False
        self._end(oldest.session_id)
        return True
