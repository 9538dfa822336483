"""A leader's side of replication: the standing asks of its followers, and their answers.

A follower's ask stands until it is answered: the leader remembers for each follower which partitions it wants
and from where. What arrives for one of them (records, a watermark, another leader) answers the ask at once,
with everything that is new for all of them. A partition that was answered is asked for again by the follower;
until then nothing more is sent for it. An ask that brings nothing is answered empty after a while: the
heartbeat that keeps followers from electing.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from tidelog.errors import ErrorCode, OffsetOutOfRange, StorageError
from tidelog.log.index_build import Unindexed
from tidelog.log.reading import Unread
from tidelog.log.verification import DamagedSegment
from tidelog.replication.assurance import Assurance
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.election import NEVER_MS
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import (
    NO_OTHERS,
    FetchAsk,
    FetchGot,
    FetchItem,
    FetchPart,
    PartitionKey,
    Peers,
    SnapshotAsk,
)
from tidelog.replication.replica import Role
from tidelog.replication.throttle import Throttle
from tidelog.services import Services
from tidelog.types import NO_BROKER

MAX_BYTES_PER_PARTITION = 1 << 20
ANSWERED_MAX = 100
HURRY_MS = 100  # After a standstill: time to read what has arrived meanwhile.


class Standing:
    """What one follower wants."""

    __slots__ = (
        "answered", "confirmed_ms", "deadline_ms", "directory", "generation", "heard_ms", "items",
        "max_bytes", "news", "other_directories", "parked", "scheduled", "sender",
    )  # fmt: skip

    def __init__(self, sender: int) -> None:
        self.sender = sender
        self.generation = 0
        self.max_bytes = 0
        # By replica and not by key: everything here happens for every produce, and keys are slow to hash.
        self.items: dict[Hosted, FetchItem] = {}  # wanted and not answered yet
        self.news: dict[Hosted, None] = {}  # those of them that may have an answer by now, in order
        self.parked = False  # whether an ask waits for its answer
        self.deadline_ms = 0
        self.heard_ms = 0  # when the newest ask came
        self.directory: UUID | None = None  # and from which disk
        self.other_directories = NO_OTHERS  # Where it votes under another id.
        self.scheduled = False
        # When answers were given of which the follower has not said yet that it has them, by generation; and
        # when the newest was given of which it has.
        self.answered: dict[int, int] = {}
        self.confirmed_ms = NEVER_MS

    def directory_for(self, hosted: Hosted) -> UUID | None:
        others = self.other_directories
        return self.directory if others is NO_OTHERS else others.get(hosted.key, self.directory)


class Serving:
    def __init__(
        self,
        me: int,
        hosted: Mapping[PartitionKey, Hosted],
        services: Services,
        peers: Peers,
        broker_epoch_of: Callable[[int], int],
    ) -> None:
        """``broker_epoch_of``: what the controllers say about a broker's registration."""
        self._me = me
        self._hosted = hosted
        self._services = services
        self._peers = peers
        self._standing: dict[int, Standing] = {}
        self.throttle = Throttle()
        self.assurance = Assurance(services)
        # Led here, maybe: its election is told when each voter is known to have followed. None: nobody asks.
        self.confirming: Hosted | None = None
        self._hurry_until_ms = -1
        self._broker_epoch_of = broker_epoch_of

    def stop(self) -> None:
        self._standing.clear()

    def forget(self, follower: int) -> None:
        """Its connection closed: nobody waits for an answer."""
        self._standing.pop(follower, None)

    def begin_anew(self, follower: int) -> None:
        """What stands may be of an earlier run of it. A new run that asked before it had registered is told,
        so that it asks again at once: it would wait for its answer in vain, and with it everybody who waits
        until it knows the metadata.
        """
        standing = self._standing.pop(follower, None)
        if standing is not None and standing.parked:
            self._answer(follower, standing.generation, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])

    # --- asks -----------------------------------------------------------------------------------------------

    def ask(self, ask: FetchAsk) -> None:
        standing = self._session_of(ask)
        if standing is None:
            return
        now_ms = self._services.uptime_ms()
        if ask.heard in standing.answered:
            self._confirm(standing, ask.heard)
        elif ask.heard < 0:
            standing.confirmed_ms = now_ms  # The best that can be had of it.
        standing.generation = ask.generation
        standing.max_bytes = ask.max_bytes
        standing.parked = True
        standing.deadline_ms = now_ms + (ask.max_wait_ms if now_ms >= self._hurry_until_ms else 0)
        standing.heard_ms = now_ms
        standing.directory, standing.other_directories = ask.directory, ask.other_directories
        for key in ask.forgotten:
            forgotten = self._hosted.get(key)
            if forgotten is not None:
                standing.items.pop(forgotten, None)
        refusals = self._count(standing, ask, now_ms)
        if self.confirming is not None and self._is_voter(standing, self.confirming):
            self.confirming.voter.confirmed(ask.sender, standing.confirmed_ms)
        tell_more = bool(self.assurance) and self.assurance.asked(standing)
        self._reply(standing, refusals)
        if tell_more and standing.parked:
            self._answer_standing(standing, [])

    def _session_of(self, ask: FetchAsk) -> Standing | None:
        """What the follower wants so far; None where the ask adds nothing to it."""
        standing = self._standing.get(ask.sender)
        if ask.since:
            if standing is None or standing.generation != ask.since:
                # We have restarted, or an ask was lost on the way: what we remember is not what it means.
                self._answer(ask.sender, ask.generation, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
                return None
        elif standing is not None and standing.generation == ask.generation:
            return None  # The same again.
        if standing is not None and standing.parked:
            self._answer_standing(standing, [])
        if standing is None or not ask.since:
            standing = self._standing[ask.sender] = _anew(standing, ask.sender)
        return standing

    def when_followed(self, hosted: Hosted, followers: frozenset[int], then: Callable[[bool], None]) -> None:
        """Tell ``then`` whether all of them follow this replica in its epoch from now on."""
        if not followers:
            then(True)
            return
        since_ms = self.assurance.hold(hosted, followers, then)
        for standing in self._standing.values():
            if standing.parked and standing.sender in followers and standing.confirmed_ms < since_ms:
                self._answer_standing(standing, [])

    def _is_voter(self, standing: Standing, hosted: Hosted) -> bool:
        """Whether this is a voter that follows here."""
        directory = standing.directory_for(hosted)
        return hosted in standing.items and hosted.voter.counts(standing.sender, directory)

    def _confirm(self, standing: Standing, generation: int) -> None:
        standing.confirmed_ms = max(standing.confirmed_ms, standing.answered[generation])
        for earlier in [each for each in standing.answered if each <= generation]:
            del standing.answered[earlier]

    def prompt(self, hosted: Hosted, since_ms: int) -> None:
        """Every voter that follows here shall say that it has done so since then: an ask that is answered is
        followed by the next.
        """
        for standing in self._standing.values():
            if standing.parked and standing.confirmed_ms < since_ms and self._is_voter(standing, hosted):
                self._answer_standing(standing, [])

    def _count(self, standing: Standing, ask: FetchAsk, now_ms: int) -> list[FetchPart]:
        """An item acknowledges everything before its offset. What cannot stand is refused."""
        refusals = []
        stale = ask.broker_epoch < self._broker_epoch_of(ask.sender)
        for item in ask.items:
            hosted = self._hosted.get(item.key)
            if hosted is None or hosted.closed:
                refusals.append(FetchPart(item.key, item.offset, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            if stale and hosted.voter.counts_registered_only:
                # From before its last restart. It may have lost since what this would acknowledge.
                refusals.append(_refusal(hosted, item, ErrorCode.STALE_BROKER_EPOCH))
                continue
            refusal = self._acknowledged(hosted, item, ask, now_ms)
            if refusal is not None:
                refusals.append(refusal)
                continue
            standing.items[hosted] = item
            if _has_news(hosted, item):
                standing.news[hosted] = None
        return refusals

    def _acknowledged(self, hosted: Hosted, item: FetchItem, ask: FetchAsk, now_ms: int) -> FetchPart | None:
        """Count one item; what it is refused with, if it is."""
        voter = hosted.voter
        directory = ask.directory if ask.other_directories is NO_OTHERS else ask.directory_for(hosted.key)
        follower = voter.counted(ask.sender, directory, now_ms)
        # What a follower of an earlier epoch knows was confirmed before we began to lead. What we have
        # written since does not make up for it.
        is_old = item.last_epoch < hosted.replica.epoch
        reached = hosted.replica.epoch_start_offset if is_old else hosted.log.end_offset
        if item.high_watermark > reached and hosted.stand_in.is_behind(item.last_epoch):
            hosted.damage.step_back(item.high_watermark)
        if hosted.lends_to(ask.sender):
            answer = hosted.replica.lent(item.epoch, item.offset, item.last_epoch)
        else:
            answer = hosted.replica.fetched(
                follower, item.epoch, item.offset, item.last_epoch, item.log_start_offset, now_ms
            )
        if answer.effects:
            hosted.run(answer.effects)
        if answer.error is not ErrorCode.NONE or answer.diverging is not None:
            return _refusal(hosted, item, answer.error, answer.diverging)
        if voter.notes_fetches or follower == NO_BROKER:
            voter.note_fetch(ask.sender, directory, item.offset, now_ms)
        return None

    def refresh(self, hosted: Hosted, voter: Elected) -> None:
        """Tell a leader's election when its voters were last heard of: whose ask stands goes on following,
        whatever the newest ask was about.
        """
        for follower, standing in self._standing.items():
            if hosted in standing.items:
                voter.counted(follower, standing.directory_for(hosted), standing.heard_ms)

    def note_alive(self, hosted: Hosted) -> None:
        """The same for everybody who fetches a log whose voters may change. Who had everything before they
        were to change does not ask again: what it asked for stands, and not what it had when voters were last
        to change.
        """
        for follower, standing in self._standing.items():
            item = standing.items.get(hosted)
            if item is None:
                continue
            directory = standing.directory_for(hosted)
            if item.epoch == hosted.replica.epoch:
                hosted.voter.note_fetch(follower, directory, item.offset, standing.heard_ms)
            else:
                hosted.voter.note_alive(follower, directory, standing.heard_ms)

    def ask_snapshot(self, ask: SnapshotAsk) -> None:
        hosted = self._hosted.get(ask.key)
        if hosted is not None:
            hosted.snapshots.asked(ask, hosted, self._peers)

    # --- answers --------------------------------------------------------------------------------------------

    def grown(self, hosted: Hosted) -> None:
        """Something is new in a partition: answer whoever waits for it; soon, so that what comes along goes
        along.
        """
        for standing in self._standing.values():
            if hosted in standing.items:
                standing.news[hosted] = None
                if standing.parked and not standing.scheduled:
                    standing.scheduled = True
                    self._services.soon(lambda standing=standing: self._wake(standing))  # type: ignore[misc]

    def _wake(self, standing: Standing) -> None:
        standing.scheduled = False
        if standing.parked and self._standing.get(standing.sender) is standing:
            self._reply(standing, [])

    def hurry(self, now_ms: int) -> None:
        """This process stood still. Whoever waits, or has asked meanwhile, gets a sign of life now, and not
        after the next standstill.
        """
        self._hurry_until_ms = now_ms + HURRY_MS
        for standing in self._standing.values():
            standing.deadline_ms = now_ms

    def _is_throttled(self, hosted: Hosted, follower: int) -> bool:
        """Only who is not in sync: members must not be slowed down, everybody waits for them."""
        named = hosted.throttled
        return (named is None or follower in named) and follower not in hosted.replica.in_sync

    def _limit(self, hosted: Hosted, follower: int, room: int) -> int:
        if not self._is_throttled(hosted, follower):
            return room
        return min(room, self.throttle.allowance(self._services.uptime_ms()))

    def is_followed_by(self, hosted: Hosted, follower: int, since_ms: int) -> bool:
        standing = self._standing.get(follower)
        progress = hosted.replica.progress.get(follower)
        if standing is None or progress is None or standing.heard_ms < since_ms:
            return False
        # What was answered is asked for again, unless the follower has turned to somebody else.
        return hosted in standing.items or progress.fetched_ms >= since_ms

    def followed_until_ms(self, hosted: Hosted, follower: int) -> int:
        """When the newest answer was given after which the follower has shown that it follows."""
        standing = self._standing.get(follower)
        progress = hosted.replica.progress.get(follower)
        if standing is None or progress is None:
            return NEVER_MS
        if hosted in standing.items:
            return standing.confirmed_ms
        # What was answered is asked for again, unless the follower has turned to somebody else.
        return min(standing.confirmed_ms, progress.fetched_ms)

    def tick(self, now_ms: int) -> None:
        for standing in list(self._standing.values()):
            if standing.parked and standing.news:
                self._reply(standing, [])
            if standing.parked and now_ms >= standing.deadline_ms:
                self._answer_standing(standing, [])

    def _reply(self, standing: Standing, parts: list[FetchPart]) -> None:
        """Send what is new; leave the ask standing when that is nothing."""
        room, unread = standing.max_bytes, Unread()
        items = standing.items
        for hosted in list(standing.news):
            if room <= 0:
                break  # The rest goes with the next answer.
            limit = self._limit(hosted, standing.sender, room) if self.throttle.limits else room
            if limit <= 0:
                continue  # The clock tries again.
            del standing.news[hosted]
            item = items.get(hosted)
            if item is None:
                continue
            part = _part(hosted, item, limit, standing.sender, unread)
            if part is not None:
                del items[hosted]
                parts.append(part)
                if part.records is not None:
                    room -= part.records.size
                    if self.throttle.limits and self._is_throttled(hosted, standing.sender):
                        self.throttle.spend(part.records.size)
        if parts:
            self._answer_standing(standing, parts)

    def _answer_standing(self, standing: Standing, parts: list[FetchPart]) -> None:
        standing.parked = False
        if len(standing.answered) >= ANSWERED_MAX:
            standing.answered.clear()  # It does not tell what it has.
        standing.answered[standing.generation] = self._services.uptime_ms()
        self._answer(standing.sender, standing.generation, ErrorCode.NONE, parts)

    def _answer(self, to: int, generation: int, error: ErrorCode, parts: list[FetchPart]) -> None:
        self._peers.send(to, FetchGot(self._me, generation, error, parts))


def _anew(standing: Standing | None, sender: int) -> Standing:
    """Nothing stands of what was asked before; what was answered, it may have all the same."""
    anew = Standing(sender)
    if standing is not None:
        anew.answered, anew.confirmed_ms = standing.answered, standing.confirmed_ms
    return anew


def _part(
    hosted: Hosted, item: FetchItem, room: int, asker: int, unread: Unread | None = None
) -> FetchPart | None:
    """The answer for one partition, or None when there is nothing to say yet."""
    if hosted.closed:
        return FetchPart(item.key, item.offset, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replica, log = hosted.replica, hosted.log
    if item.epoch != replica.epoch:
        return _refusal(hosted, item, replica.check_epoch(item.epoch))
    if replica.role is not Role.LEADER and not hosted.lends_to(asker):
        return _refusal(hosted, item, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    records = None
    if log.end_offset > item.offset:
        try:
            limit = min(room, MAX_BYTES_PER_PARTITION)
            records = log.read(item.offset, limit, log.end_offset, at_least_one_batch=True, unread=unread)
        except Unindexed as unindexed:
            hosted.build_indexes(unindexed)
            return None
        except OffsetOutOfRange:
            return _refusal(hosted, item, ErrorCode.OFFSET_OUT_OF_RANGE)
        except DamagedSegment as damage:
            hosted.damage.found(damage.offset, damage.message)
            return _refusal(hosted, item, ErrorCode.KAFKA_STORAGE_ERROR)
        except StorageError:
            return _refusal(hosted, item, ErrorCode.KAFKA_STORAGE_ERROR)
    elif not _has_news(hosted, item):
        return None
    return FetchPart(
        item.key, item.offset, ErrorCode.NONE, replica.epoch, replica.leader, replica.high_watermark,
        log.start_offset, records, None,
    )  # fmt: skip


def _has_news(hosted: Hosted, item: FetchItem) -> bool:
    """Records, a watermark, or a later beginning that the follower is able to take over."""
    replica, log = hosted.replica, hosted.log
    return (
        log.end_offset > item.offset
        or replica.high_watermark > item.high_watermark
        or (
            item.log_start_offset < log.start_offset <= item.high_watermark
            and not hosted.snapshots.stand_for_start
        )
    )


def _refusal(
    hosted: Hosted, item: FetchItem, error: ErrorCode, diverging: tuple[int, int] | None = None
) -> FetchPart:
    """Says besides who leads, as far as we know."""
    replica, snapshot = hosted.replica, hosted.snapshots.newest
    if error is ErrorCode.OFFSET_OUT_OF_RANGE and snapshot:
        return FetchPart(item.key, item.offset, epoch=replica.epoch, leader=replica.leader, snapshot=snapshot)
    epoch, leader = hosted.voter.newest_leader()
    return FetchPart(
        item.key, item.offset, error, epoch, leader, replica.high_watermark, hosted.log.start_offset, None,
        diverging,
    )  # fmt: skip
