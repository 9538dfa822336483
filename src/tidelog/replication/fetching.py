"""One node's fetch loop towards one leader, for all partitions that follow it.

A request names only what is new since the last one: partitions that became ready, or whose response was
processed. The leader remembers the others. If a response is missing for too long, or the leader does not
remember, the next request is complete. A partition's part of a response counts once, and only if it answers
that partition's newest item. An older part may match our log by coincidence and would make us truncate what
we have fetched since.

The timeout adapts to the connection. A response that arrives after its request was given up is not used, but
it shows how long to wait for the next ones.
"""

import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice
from uuid import UUID

from tidelog.errors import ErrorCode, InvariantViolation, TidelogError
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import NEVER_MS
from tidelog.replication.messages import (
    FetchAsk,
    FetchGot,
    FetchItem,
    FetchPart,
    OtherDirectories,
    PartitionKey,
    Peers,
)  # fmt: skip
from tidelog.replication.replica import Role
from tidelog.services import Services

logger = logging.getLogger(__name__)

MAX_WAIT_MS = 300  # The leader's empty response after this time is the heartbeat.
TIMEOUT_MS = 700  # Without a response for this long the request or its response is lost: send it again.
# Upper limit of the adapted timeout. It is also how long a loss may go unnoticed on a slow connection.
TIMEOUT_MAX_MS = 5000
SPARE_MS = 100  # by which a response may take longer than the one before
QUICK_MS = 150  # A response within this time shows that the connection can carry more.
BACKOFF_MS = 50  # delay after an error, before the partition is fetched again
BROKEN_MS = 5000  # delay after an unexpected exception
MAX_BYTES = 10 << 20
LEAST_BYTES = 64 << 10
PARTITIONS_MAX = 1000  # to be named in one request, about 4 ms; what is left goes into the next one


class FetchLoop:
    def __init__(
        self,
        me: int,
        leader: int,
        services: Services,
        peers: Peers,
        broker_epoch: Callable[[], int],
        leader_hinted: Callable[[ReplicaDriver, int, int], None],
        contradicted: Callable[[ReplicaDriver, int, InvariantViolation], None],
        first_generation: int,
    ) -> None:
        self._me = me
        self._leader = leader
        self._services = services
        self._peers = peers
        self._broker_epoch = broker_epoch
        self._leader_hinted = leader_hinted  # called with the leader that a refusal mentions, if any
        self._contradicted = contradicted  # called when the leader's log contradicts ours
        self._partitions: dict[PartitionKey, ReplicaDriver] = {}
        # The tables below are keyed by replica, not by partition key, which is slow to hash.
        self._electing: dict[ReplicaDriver, None] = {}  # those of them whose replicas vote
        self._directories: tuple[UUID | None, OtherDirectories] | None = None  # their voters' ids
        self._ready: dict[ReplicaDriver, None] = {}  # go into the next request
        self._asked: dict[ReplicaDriver, int] = {}  # generation of the item that is not answered yet
        self._resting: dict[ReplicaDriver, int] = {}  # after an error: until when
        self._forgotten: dict[PartitionKey, None] = {}  # the leader still remembers them
        # Starts at a random number: the leader may still remember an earlier process of this broker.
        self._generation = first_generation
        self._since = 0  # the generation that the leader remembers; 0: none
        # Generation → when it was sent. Every request is answered once. If a response is lost, its partitions
        # are missing from all newer requests, however promptly those are answered.
        self._unanswered: dict[int, int] = {}
        self._given_up: dict[int, int] = {}  # likewise; their responses may still arrive
        self._patience_ms = TIMEOUT_MS
        self._most_bytes = 1 if services.perturb("short fetches") else MAX_BYTES
        self._max_bytes = self._most_bytes
        # When the leader last responded, and the newest generation that it has answered. While a partition's
        # request is pending, every response of the leader shows that it still leads that partition: otherwise
        # it would have refused.
        self._heard_ms = NEVER_MS
        self._heard_generation = -1
        # When the leader was last heard, for voting partitions without a pending request.
        self._heard_at: dict[ReplicaDriver, int] = {}
        # May have a pending request, which shows that the leader agrees with our log.
        self._unconfirmed: dict[ReplicaDriver, None] = {}
        self._missed = False  # A response did not arrive in time.
        self._paused_until_ms = 0
        self._scheduled = False
        self._stopped = False

    def want(self, driver: ReplicaDriver) -> None:
        """This partition follows our leader, or is ready to fetch again."""
        if driver in self._asked or driver in self._resting:
            return
        self._partitions[driver.key] = driver
        if driver.voter.watches_leader and driver not in self._electing:
            self._electing[driver] = None
            self._directories = None
        self._ready[driver] = None
        self._soon()

    def forget(self, driver: ReplicaDriver) -> None:
        """It follows another leader now, or in another epoch."""
        if self._partitions.get(driver.key) is not driver:
            return
        del self._partitions[driver.key]
        if driver in self._electing:
            del self._electing[driver]
            self._directories = None
        self._heard_at.pop(driver, None)
        self._ready.pop(driver, None)
        self._resting.pop(driver, None)
        if self._asked.pop(driver, None) is not None:
            self._forgotten[driver.key] = None

    def stop(self) -> None:
        self._stopped = True

    def lost(self, now_ms: int) -> list[ReplicaDriver]:
        """The connection closed: no pending request will be answered. Returns the partitions whose replicas
        vote.
        """
        self._reset_session()
        self._given_up.clear()
        self._patience_ms, self._max_bytes = TIMEOUT_MS, self._most_bytes
        self._heard_at.clear()
        self._paused_until_ms = now_ms + BACKOFF_MS  # Requests to a dead leader need a pause.
        return list(self._electing)

    def heard_ms(self, driver: ReplicaDriver) -> int:
        """When the leader last showed, in the present epoch, that it leads this partition."""
        asked = self._asked.get(driver)
        if asked is not None and asked <= self._heard_generation:
            return self._heard_ms
        return self._heard_at.get(driver, NEVER_MS)

    def tick(self, now_ms: int) -> None:
        if not self._partitions:
            return
        if self._resting:
            for driver in [driver for driver, until_ms in self._resting.items() if until_ms <= now_ms]:
                del self._resting[driver]
                self._ready[driver] = None
        if self._unanswered and now_ms - next(iter(self._unanswered.values())) >= self._patience_ms:
            self._missed = True
            self._give_up(now_ms)
        if self._ready or not self._unanswered:
            self._soon()

    def _give_up(self, now_ms: int) -> None:
        missing = {**self._given_up, **self._unanswered}
        oldest_ms = now_ms - TIMEOUT_MAX_MS
        self._given_up = {number: sent_ms for number, sent_ms in missing.items() if sent_ms > oldest_ms}
        self._reset_session()

    def _reset_session(self) -> None:
        """Make the next request complete."""
        for driver in self._electing:
            self._heard_at[driver] = self.heard_ms(driver)
        self._unanswered.clear()
        self._since = 0
        self._asked.clear()
        self._forgotten.clear()
        for driver in self._partitions.values():
            if driver not in self._resting:
                self._ready[driver] = None

    def _soon(self) -> None:
        """After the current events, so that partitions that become ready together share a request."""
        if not self._scheduled:
            self._scheduled = True
            self._services.soon(self._ask)

    def _ask(self) -> None:
        self._scheduled = False
        now_ms = self._services.uptime_ms()
        if self._stopped or not self._partitions or now_ms < self._paused_until_ms:
            return
        items = []
        generation = self._generation + 1
        ready = list(islice(self._ready, PARTITIONS_MAX))
        for driver in ready:
            replica = driver.replica
            if replica.role is not Role.FOLLOWER or replica.leader != self._leader or not driver.may_fetch:
                continue  # Resumed by :meth:`want` when that changes.
            items.append(_item(driver))
            self._asked[driver] = generation
            if not replica.watermark.log_confirmed:
                self._unconfirmed[driver] = None
            if self._forgotten:
                self._forgotten.pop(driver.key, None)
        if len(ready) == len(self._ready):
            self._ready.clear()
        else:
            for driver in ready:
                del self._ready[driver]
            self._soon()
        if not items and not self._forgotten and (self._unanswered or not self._asked):
            return
        self._generation = generation
        forgotten = list(self._forgotten)
        self._forgotten.clear()
        self._unanswered[generation] = now_ms
        # After a missing response the next one is requested without a wait, to see whether the leader is
        # alive.
        wait_ms = 0 if self._missed else MAX_WAIT_MS
        self._missed = False
        directory, others = self._directories or self._name_directories()
        ask = FetchAsk(
            self._me, self._broker_epoch(), generation, self._since, items, forgotten, wait_ms,
            self._max_bytes, directory, max(self._heard_generation, 0), others,
        )  # fmt: skip
        self._since = generation
        self._peers.send(self._leader, ask)

    def _name_directories(self) -> tuple[UUID | None, OtherDirectories]:
        """The id under which this broker votes on most partitions, and the partitions on which it has another
        one.
        """
        ids = {driver.key: driver.voter.directory for driver in self._electing}
        told = {key: directory for key, directory in ids.items() if directory is not None}
        usual, _ = Counter(told.values()).most_common(1)[0] if told else (None, 0)
        self._directories = usual, tuple(each for each in told.items() if each[1] != usual)
        return self._directories

    def answered(self, got: FetchGot, now_ms: int) -> None:
        if got.error is not ErrorCode.NONE:
            if got.generation in self._unanswered:
                self._reset_session()
                self._soon()
            return
        if not self._has_asked(got.generation):
            self._ask_again(got)
            return
        sent_ms = self._unanswered.pop(got.generation, None)
        if sent_ms is not None:
            self._in_time(now_ms - sent_ms)
        elif self._given_up:
            self._too_late(got, now_ms)
        self._heard_ms = now_ms
        self._heard_generation = max(self._heard_generation, got.generation)
        broken = self._take_parts(got, now_ms)
        if self._unconfirmed:
            self._agree(got.generation)
        if self._ready or not self._unanswered:
            self._soon()
        if broken is not None:
            raise broken

    def _take_parts(self, got: FetchGot, now_ms: int) -> Exception | None:
        """Process the parts of a response; returns the first error, if any."""
        broken: Exception | None = None
        for part in got.parts:
            try:
                self._take_or_stop(got.generation, part, now_ms)
            except Exception as error:
                # The other parts must be processed all the same: this response will not come again.
                broken = broken or error
                self._resting[self._partitions[part.key]] = now_ms + BROKEN_MS
        return broken

    def _agree(self, generation: int) -> None:
        """A partition that was requested and is not in the response is pending at the leader: there is no
        news, and our log is a prefix of the leader's, or it would have refused. This is the only confirmation
        for a partition without new records.
        """
        for driver in list(self._unconfirmed):
            asked = self._asked.get(driver)
            if asked is None or asked == generation:
                del self._unconfirmed[driver]
            if asked == generation:
                driver.accepted()

    def _has_asked(self, generation: int) -> bool:
        """Whether this process waits for the response. Generations start at random numbers, so a response to
        an earlier process may look new; and that process may have held, at the same offset, records that a
        power failure has removed since.
        """
        return generation in self._unanswered or generation in self._given_up

    def _ask_again(self, got: FetchGot) -> None:
        """The leader has answered a request twice and believes that these partitions are answered. This is
        not the response that we used, so they are still open here.
        """
        for part in got.parts:
            driver = self._partitions.get(part.key)
            if driver is not None and self._asked.get(driver) == got.generation:
                del self._asked[driver]
                self._ready[driver] = None
                self._soon()

    def _in_time(self, took_ms: int) -> None:
        """The next response may take as long, and the leader may wait for news before it responds."""
        if took_ms + MAX_WAIT_MS <= TIMEOUT_MS:
            self._patience_ms = TIMEOUT_MS
        else:
            self._patience_ms = min(took_ms + MAX_WAIT_MS + SPARE_MS, TIMEOUT_MAX_MS)
        if self._max_bytes < self._most_bytes and took_ms <= QUICK_MS:
            self._max_bytes *= 2

    def _too_late(self, got: FetchGot, now_ms: int) -> None:
        """Without this, a follower on a slow connection would request the same forever and drop every
        response.
        """
        sent_ms = self._given_up.pop(got.generation, None)
        if sent_ms is None:
            return
        self._patience_ms = min(now_ms - sent_ms + MAX_WAIT_MS + SPARE_MS, TIMEOUT_MAX_MS)
        size = sum(part.records.size for part in got.parts if part.records is not None)
        if 2 * size >= self._max_bytes > LEAST_BYTES:
            self._max_bytes //= 2  # The size of the response is the cause, not the latency.

    def _take_or_stop(self, generation: int, part: FetchPart, now_ms: int) -> None:
        try:
            self._take_part(generation, part, now_ms)
        except InvariantViolation as error:
            self._contradicted(self._partitions[part.key], self._leader, error)

    def _take_part(self, generation: int, part: FetchPart, now_ms: int) -> None:
        driver = self._partitions.get(part.key)
        if driver is None:
            return
        asked = self._asked.get(driver)
        if asked is None or generation < asked:
            return
        del self._asked[driver]
        if driver in self._electing and part.error is ErrorCode.NONE:
            self._heard_at[driver] = now_ms
        self._take(driver, part, now_ms)
        if driver not in self._resting and self._partitions.get(part.key) is driver:
            self._ready[driver] = None

    def _take(self, driver: ReplicaDriver, part: FetchPart, now_ms: int) -> None:
        replica = driver.replica
        if replica.role is not Role.FOLLOWER or replica.leader != self._leader:
            return
        if part.error is not ErrorCode.NONE:
            self._refused(driver, part, now_ms)
            return
        if part.epoch != replica.epoch or part.offset != driver.log.end_offset:
            return  # a response to a request from before something changed here
        if part.snapshot is not None:
            driver.snapshots.fetch(driver, self._leader, part.snapshot, self._peers)
            return
        if part.diverging is not None:
            if not driver.diverged(part.epoch, part.diverging):
                self._resting[driver] = now_ms + BACKOFF_MS
            return
        try:
            records = None if part.records is None else part.records.read()
            driver.take(part.epoch, records, part.high_watermark, part.log_start_offset)
        except TidelogError as error:
            # Damaged in transit or on the leader's disk: log it, and fetch again after a delay.
            logger.error("%s: unusable records from broker %s: %s", driver.key, self._leader, error.message)
            self._resting[driver] = now_ms + BACKOFF_MS
        if not driver.log.start_is_kept:
            # The leader responds at once as long as our log start is below its own.
            self._resting[driver] = now_ms + BACKOFF_MS

    def _refused(self, driver: ReplicaDriver, part: FetchPart, now_ms: int) -> None:
        self._resting[driver] = now_ms + BACKOFF_MS
        if part.error is ErrorCode.OFFSET_OUT_OF_RANGE and part.epoch == driver.replica.epoch:
            if part.log_start_offset > driver.log.end_offset:
                # The leader no longer has the records that come next for us: restart at its log start.
                driver.restart_at_leader_start(part.log_start_offset)
            elif part.offset == driver.log.end_offset:
                driver.leader_ends_before(part.log_start_offset)
            return
        self._leader_hinted(driver, part.leader, part.epoch)


def _item(driver: ReplicaDriver) -> FetchItem:
    replica, log = driver.replica, driver.log
    return FetchItem(
        driver.key,
        replica.epoch,
        log.end_offset,
        replica.last_epoch,
        # The leader considers records before it deleted permanently.
        log.kept_start_offset,
        replica.high_watermark,
    )
