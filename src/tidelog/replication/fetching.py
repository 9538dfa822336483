"""One node's loop of fetches from one leader, for all partitions that follow it."""

import logging
from collections.abc import Callable

from tidelog.errors import ErrorCode, TidelogError
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import FetchAsk, FetchGot, FetchItem, FetchPart, PartitionKey, Peers
from tidelog.replication.replica import Role
from tidelog.services import Services

logger = logging.getLogger(__name__)

MAX_WAIT_MS = 300  # The leader's empty answer after this time is the heartbeat.
TIMEOUT_MS = 700  # Without any answer for so long the ask or its answer is lost: ask again.
BACKOFF_MS = 50  # After an error, before the partition asks again.
MAX_BYTES = 10 << 20


class FetchLoop:
    def __init__(
        self,
        me: int,
        leader: int,
        services: Services,
        peers: Peers,
        leader_heard: Callable[[Hosted, int, int], None],
        leader_named: Callable[[Hosted, int, int], None],
    ) -> None:
        self._me = me
        self._leader = leader
        self._services = services
        self._peers = peers
        self._leader_heard = leader_heard  # it answered us itself
        self._leader_named = leader_named  # a refusal says who leads, or that nobody does
        self._partitions: dict[PartitionKey, Hosted] = {}
        self._resting: dict[PartitionKey, int] = {}  # after an error: until when
        self._generation = 0
        self._asked: set[PartitionKey] = set()  # in the newest ask that is under way
        self._under_way = False
        self._deadline_ms = 0
        self._scheduled = False
        self._stopped = False

    def want(self, hosted: Hosted) -> None:
        """This partition follows our leader, or is ready to go on."""
        self._partitions[hosted.key] = hosted
        if hosted.key not in self._asked:
            self._soon()

    def forget(self, key: PartitionKey) -> None:
        self._partitions.pop(key, None)
        self._resting.pop(key, None)
        self._asked.discard(key)

    def stop(self) -> None:
        self._stopped = True

    def lost(self, now_ms: int) -> None:
        """The connection closed: nothing that is under way will be answered."""
        self._under_way = False
        self._asked.clear()
        self._deadline_ms = now_ms + BACKOFF_MS

    def tick(self, now_ms: int) -> None:
        if not self._partitions:
            return
        rested = [key for key, until_ms in self._resting.items() if until_ms <= now_ms]
        for key in rested:
            del self._resting[key]
        if now_ms >= self._deadline_ms:
            self._under_way = False
            self._asked.clear()
        if rested or not self._under_way:
            self._soon()

    def _soon(self) -> None:
        """After the events at hand, so that partitions that become ready together ask together."""
        if not self._scheduled:
            self._scheduled = True
            self._services.soon(self._ask)

    def _ask(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        items = [self._item(hosted) for key, hosted in self._partitions.items() if self._ready(key, hosted)]
        if not items:
            return
        if self._under_way and all(item.key in self._asked for item in items):
            return
        self._generation += 1
        self._asked = {item.key for item in items}
        self._under_way = True
        self._deadline_ms = self._services.now_ms() + TIMEOUT_MS
        self._peers.send(self._leader, FetchAsk(self._me, self._generation, items, MAX_WAIT_MS, MAX_BYTES))

    def _ready(self, key: PartitionKey, hosted: Hosted) -> bool:
        replica = hosted.replica
        follows = replica.role is Role.FOLLOWER and replica.leader == self._leader
        return follows and hosted.may_fetch and key not in self._resting

    @staticmethod
    def _item(hosted: Hosted) -> FetchItem:
        replica, log = hosted.replica, hosted.log
        return FetchItem(
            hosted.key,
            replica.epoch,
            log.end_offset,
            replica.last_epoch,
            log.start_offset,
            replica.high_watermark,
        )

    def answered(self, got: FetchGot, now_ms: int) -> None:
        # Only an answer to the newest ask, and only once: an old one may fit our log again by accident, and
        # tell us to truncate what we have fetched since.
        if got.generation != self._generation or not self._under_way:
            return
        self._under_way = False
        self._asked.clear()
        for part in got.parts:
            hosted = self._partitions.get(part.key)
            if hosted is not None:
                self._take(hosted, part, now_ms)
        self._soon()

    def _take(self, hosted: Hosted, part: FetchPart, now_ms: int) -> None:
        replica = hosted.replica
        if replica.role is not Role.FOLLOWER or replica.leader != self._leader:
            return
        if part.error is not ErrorCode.NONE:
            self._refused(hosted, part, now_ms)
            return
        if part.epoch != replica.epoch or part.offset != hosted.log.end_offset:
            return  # An answer to an ask from before something changed here.
        self._leader_heard(hosted, self._leader, part.epoch)
        if part.diverging is not None:
            hosted.diverged(part.epoch, part.diverging)
            return
        try:
            records = None if part.records is None else part.records.read()
            hosted.take(part.epoch, records, part.high_watermark)
        except TidelogError as error:
            # Damaged on the way or on the leader's disk: say so, and ask again after a while.
            logger.error("%s: what broker %s sent is not usable: %s", hosted.key, self._leader, error.message)
            self._resting[hosted.key] = now_ms + BACKOFF_MS

    def _refused(self, hosted: Hosted, part: FetchPart, now_ms: int) -> None:
        self._resting[hosted.key] = now_ms + BACKOFF_MS
        if part.error is ErrorCode.OFFSET_OUT_OF_RANGE and part.epoch == hosted.replica.epoch:
            if part.log_start_offset > hosted.log.end_offset:
                # The leader no longer has what comes next for us: begin again where its log begins.
                hosted.restart_at(part.log_start_offset)
            return
        self._leader_named(hosted, part.leader, part.epoch)
