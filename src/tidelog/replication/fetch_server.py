"""A leader's side of replication: the pending fetch requests of its followers, and the responses.

A follower's request stays pending until it is answered: the leader remembers for each follower which
partitions it wants and from which offset. News for one of them (records, a high watermark, another leader)
completes the request at once, with everything that is new for all of them. The follower requests a partition
again after it was answered; until then nothing more is sent for it. A request without news is answered empty
after some time. This is the heartbeat that keeps followers from starting elections.

A high watermark that is the only news waits a moment for the next records: otherwise each small write would
cost every follower two responses. Where replicas vote it is sent at once: brokers act on what is committed in
the metadata log, and voters on the voter sets in their log.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from tidelog.errors import ErrorCode, OffsetOutOfRange, StorageError
from tidelog.log.index_build import Unindexed
from tidelog.log.reading import Unread
from tidelog.log.verification import DamagedSegment
from tidelog.replication.assurance import Assurance
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import NEVER_MS
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
OVERTAKEN_MAX = 100  # by how many later ones of the same process a request may have been overtaken
HURRY_MS = 100  # after a stall: time to read what has arrived in the meantime
# So long a high watermark waits for records: 1 to 2 ms, because the clock has whole milliseconds.
COMMIT_WITHIN_MS = 2


class FollowerSession:
    """The partitions that one follower wants."""

    __slots__ = (
        "answered", "commits", "commits_due_ms", "confirmed_ms", "deadline_ms", "directory", "generation",
        "heard_ms", "items", "max_bytes", "news", "other_directories", "parked", "scheduled", "sender",
    )  # fmt: skip

    def __init__(self, sender: int) -> None:
        self.sender = sender
        self.generation = 0
        self.max_bytes = 0
        # Keyed by replica, not by partition key: all this runs for every produce, and keys are slow to hash.
        self.items: dict[ReplicaDriver, FetchItem] = {}  # requested and not answered yet
        self.news: dict[ReplicaDriver, None] = {}  # those of them that may have news by now, in order
        self.commits: dict[ReplicaDriver, None] = {}  # those with a high watermark as their only news
        self.commits_due_ms = 0  # when the first of these is sent without records
        self.parked = False  # whether a request waits for its response
        self.deadline_ms = 0
        self.heard_ms = 0  # when the newest request arrived
        self.directory: UUID | None = None  # the disk that it came from
        self.other_directories = NO_OTHERS  # partitions on which it votes under another id
        self.scheduled = False
        # When each response was sent that the follower has not confirmed yet, by generation; and when the
        # newest confirmed one was sent.
        self.answered: dict[int, int] = {}
        self.confirmed_ms = NEVER_MS

    def directory_for(self, driver: ReplicaDriver) -> UUID | None:
        key = driver.key
        return next((other for each, other in self.other_directories if each == key), self.directory)


class FetchServer:
    def __init__(
        self,
        me: int,
        driver: Mapping[PartitionKey, ReplicaDriver],
        services: Services,
        peers: Peers,
        broker_epoch_of: Callable[[int], int],
    ) -> None:
        """``broker_epoch_of``: the epoch of a broker's registration, according to the controllers."""
        self._me = me
        self._driver = driver
        self._services = services
        self._peers = peers
        self._sessions: dict[int, FollowerSession] = {}
        self.throttle = Throttle()
        self.assurance = Assurance(services)
        # If this replica leads, its election learns until when each voter is known to have followed. None:
        # not needed.
        self._confirming: ReplicaDriver | None = None
        self._hurry_until_ms = -1
        self._awaits_commits = False  # A timer is set, after which held high watermarks are sent.
        self._broker_epoch_of = broker_epoch_of

    def stop(self) -> None:
        self._sessions.clear()

    def forget(self, follower: int) -> None:
        """Its connection closed, so it does not wait for a response any more."""
        self._sessions.pop(follower, None)

    def drop_session(self, follower: int) -> None:
        """The pending request may be from an earlier process of this broker. A new process that sent it
        before it had registered gets an error, so that it fetches again at once. Otherwise it would wait for
        a response that never comes, and delay everything that waits until it knows the metadata.
        """
        session = self._sessions.pop(follower, None)
        if session is not None and session.parked:
            self._respond(follower, session.generation, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])

    # --- requests -------------------------------------------------------------------------------------------

    def ask(self, ask: FetchAsk) -> None:
        session = self._session_of(ask)
        if session is None:
            return
        now_ms = self._services.uptime_ms()
        if ask.heard in session.answered:
            self._confirm(session, ask.heard)
        elif ask.heard < 0:
            # The best estimate for a follower that does not say what it has received.
            session.confirmed_ms = now_ms
        session.generation = ask.generation
        session.max_bytes = ask.max_bytes
        session.parked = True
        session.deadline_ms = now_ms + (ask.max_wait_ms if now_ms >= self._hurry_until_ms else 0)
        session.heard_ms = now_ms
        session.directory, session.other_directories = ask.directory, ask.other_directories
        for key in ask.forgotten:
            forgotten = self._driver.get(key)
            if forgotten is not None:
                session.items.pop(forgotten, None)
        refusals = self._count(session, ask, now_ms)
        if self._confirming is not None and self._is_voter(session, self._confirming):
            self._confirming.voter.confirmed(ask.sender, session.confirmed_ms)
        tell_more = bool(self.assurance) and self.assurance.asked(session)
        # A follower that is kept busy with empty responses may never be waiting when the timer fires.
        self._reply(session, refusals, with_commits=now_ms >= session.commits_due_ms)
        if tell_more and session.parked:
            self._respond_to_session(session, [])
        if session.parked and session.commits:
            self._await_commits(COMMIT_WITHIN_MS)

    def _session_of(self, ask: FetchAsk) -> FollowerSession | None:
        """The session that a request belongs to; None if the request adds nothing."""
        session = self._sessions.get(ask.sender)
        if ask.since:
            if session is None or session.generation != ask.since:
                # This process has restarted, or a request was lost: our session is not the one that the
                # request builds on.
                self._respond(ask.sender, ask.generation, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
                return None
        elif session is not None and 0 <= session.generation - ask.generation < OVERTAKEN_MAX:
            # A duplicate, or overtaken. A session that went back to it would answer later requests once more,
            # and the follower uses only the first response. Another process begins at a random number.
            return None
        if session is not None and session.parked:
            self._respond_to_session(session, [])
        if session is None or not ask.since:
            self._look_at_process(session, ask)
            session = self._sessions[ask.sender] = _empty_session(session, ask.sender)
        return session

    def _look_at_process(self, session: FollowerSession | None, ask: FetchAsk) -> None:
        """Tell the election of a voter that may have restarted since its last request, before this one
        counts. Another process begins at a random number.
        """
        if session is not None and 0 < ask.generation - session.generation < OVERTAKEN_MAX:
            return
        driver = self._confirming
        if driver is not None and driver.voter.counts(ask.sender, ask.directory_for(driver.key)):
            driver.voter.began(ask.sender, self._services.uptime_ms())

    def when_followed(
        self, driver: ReplicaDriver, followers: frozenset[int], then: Callable[[bool], None]
    ) -> None:
        """Call ``then`` with whether all ``followers`` still follow this replica in its epoch."""
        if not followers:
            then(True)
            return
        since_ms = self.assurance.hold(driver, followers, then)
        for session in self._sessions.values():
            if session.parked and session.sender in followers and session.confirmed_ms < since_ms:
                self._respond_to_session(session, [])

    def _is_voter(self, session: FollowerSession, driver: ReplicaDriver) -> bool:
        """Whether the follower is a voter of this partition and has a request pending for it."""
        directory = session.directory_for(driver)
        return driver in session.items and driver.voter.counts(session.sender, directory)

    def _confirm(self, session: FollowerSession, generation: int) -> None:
        session.confirmed_ms = max(session.confirmed_ms, session.answered[generation])
        for earlier in [each for each in session.answered if each <= generation]:
            del session.answered[earlier]

    def prompt(self, driver: ReplicaDriver, since_ms: int) -> None:
        """Make every voter that follows here confirm that it has followed since ``since_ms``: a follower
        sends the next request when the last is answered.
        """
        for session in self._sessions.values():
            if session.parked and session.confirmed_ms < since_ms and self._is_voter(session, driver):
                self._respond_to_session(session, [])

    def _count(self, session: FollowerSession, ask: FetchAsk, now_ms: int) -> list[FetchPart]:
        """Process the items of a request: each acknowledges everything before its offset. Returns the
        refusals.
        """
        refusals = []
        stale = ask.broker_epoch < self._broker_epoch_of(ask.sender)
        for item in ask.items:
            driver = self._driver.get(item.key)
            if driver is None or driver.closed:
                refusals.append(FetchPart(item.key, item.offset, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            if stale and driver.voter.counts_registered_only:
                # Sent before its last restart. It may have lost since then what this would acknowledge.
                refusals.append(_refusal(driver, item, ErrorCode.STALE_BROKER_EPOCH))
                continue
            refusal = self._acknowledged(driver, item, ask, now_ms)
            if refusal is not None:
                refusals.append(refusal)
                continue
            session.items[driver] = item
            if _has_news(driver, item):
                if driver.replica.open_to_observers or driver.log.end_offset > item.offset:
                    session.news[driver] = None
                else:
                    self._hold_commit(session, driver)
        return refusals

    def _acknowledged(
        self, driver: ReplicaDriver, item: FetchItem, ask: FetchAsk, now_ms: int
    ) -> FetchPart | None:
        """Process one item; returns its refusal, or None."""
        voter = driver.voter
        directory = ask.directory if not ask.other_directories else ask.directory_for(driver.key)
        follower = voter.counted(ask.sender, directory, now_ms)
        # The high watermark of a follower from an earlier epoch refers to records from before we began to
        # lead. Records that we have written since do not replace them.
        is_old = item.last_epoch < driver.replica.epoch
        # Records before the start of our log are deleted, not missing. A follower whose log is empty has no
        # epoch, and looks like one from an earlier epoch.
        from_before = max(driver.replica.epoch_start_offset, driver.log.start_offset)
        reached = from_before if is_old else driver.log.end_offset
        # A later epoch than ours says nothing about us: another replica may have led in between.
        is_known = item.epoch <= driver.replica.epoch
        has_more = is_known and item.high_watermark > reached
        if has_more and driver.stand_in.is_behind(ask.sender, item.last_epoch):
            driver.damage.step_back(item.high_watermark)
        if driver.lends_to(ask.sender):
            response = driver.replica.lent(item.epoch, item.offset, item.last_epoch, item.log_start_offset)
        else:
            response = driver.replica.fetched(
                follower, item.epoch, item.offset, item.last_epoch, item.log_start_offset, now_ms
            )
        if response.effects:
            driver.run(response.effects)
        if response.error is not ErrorCode.NONE or response.diverging is not None:
            return _refusal(driver, item, response.error, response.diverging)
        if voter.notes_fetches or follower == NO_BROKER:
            voter.note_fetch(ask.sender, directory, item.offset, now_ms)
        return None

    def refresh(self, driver: ReplicaDriver) -> None:
        """Tell a leader's election when its voters were last heard. A voter with a pending request for this
        partition still follows it, whatever its newest request was about.
        """
        for follower, session in self._sessions.items():
            if driver in session.items:
                driver.voter.counted(follower, session.directory_for(driver), session.heard_ms)

    def note_alive(self, driver: ReplicaDriver) -> None:
        """The same for all followers of a log whose voters may change. A follower that had everything before
        a change was wanted does not send the partition again. So what counts is its pending request, not what
        was recorded when voters were last to change.
        """
        for follower, session in self._sessions.items():
            item = session.items.get(driver)
            if item is None:
                continue
            directory = session.directory_for(driver)
            if item.epoch == driver.replica.epoch:
                driver.voter.note_fetch(follower, directory, item.offset, session.heard_ms)
            else:
                driver.voter.note_alive(follower, directory, session.heard_ms)

    def confirm(self, driver: ReplicaDriver) -> None:
        """While this replica leads, tell its election until when each voter is known to have followed, and
        since when its process has.
        """
        self._confirming = driver

    def ask_snapshot(self, ask: SnapshotAsk) -> None:
        driver = self._driver.get(ask.key)
        if driver is not None:
            driver.snapshots.asked(ask, driver, self._peers)

    # --- responses ------------------------------------------------------------------------------------------

    def grown(self, driver: ReplicaDriver) -> None:
        """A partition has news: answer the followers that wait for it. Not at once but soon, so that news
        that arrives together is sent together.
        """
        for session in self._sessions.values():
            if driver in session.items:
                session.news[driver] = None
                if session.parked and not session.scheduled:
                    session.scheduled = True
                    self._services.soon(lambda session=session: self._wake(session))  # type: ignore[misc]

    def committed(self, driver: ReplicaDriver) -> None:
        """A high watermark has risen. It is sent with the next records, or alone a moment later."""
        if driver.replica.open_to_observers:
            self.grown(driver)
            return
        for session in self._sessions.values():
            if driver in session.items:
                self._hold_commit(session, driver)
                if session.parked:
                    self._await_commits(COMMIT_WITHIN_MS)

    def _hold_commit(self, session: FollowerSession, driver: ReplicaDriver) -> None:
        if not session.commits:
            session.commits_due_ms = self._services.uptime_ms() + COMMIT_WITHIN_MS
        session.commits[driver] = None

    def _await_commits(self, wait_ms: int) -> None:
        if not self._awaits_commits:
            self._awaits_commits = True
            self._services.later(wait_ms, self._tell_commits)

    def _tell_commits(self) -> None:
        """Send held high watermarks to the followers that have waited long enough. If an exception ends this
        early, the next tick sends the rest.
        """
        self._awaits_commits = False
        now_ms, left_ms = self._services.uptime_ms(), 0
        for session in list(self._sessions.values()):
            if not session.parked or not session.commits:
                continue  # The follower's next request sets the timer again.
            if now_ms >= session.commits_due_ms:
                self._reply(session, [], with_commits=True)
            else:
                left_ms = max(left_ms, session.commits_due_ms - now_ms)
        if left_ms:
            self._await_commits(left_ms)

    def _wake(self, session: FollowerSession) -> None:
        session.scheduled = False
        if session.parked and self._sessions.get(session.sender) is session:
            self._reply(session, [])

    def hurry(self, now_ms: int) -> None:
        """This process was stalled. Followers that wait, or have sent a request in the meantime, get a
        response now and not after the next stall.
        """
        self._hurry_until_ms = now_ms + HURRY_MS
        for session in self._sessions.values():
            session.deadline_ms = now_ms

    def _is_throttled(self, driver: ReplicaDriver, follower: int) -> bool:
        """Applies only to followers outside the in-sync set: members must not be slowed down, because every
        commit waits for them.
        """
        named = driver.throttled
        return (named is None or follower in named) and follower not in driver.replica.in_sync

    def _limit(self, driver: ReplicaDriver, follower: int, room: int) -> int:
        if not self._is_throttled(driver, follower):
            return room
        return min(room, self.throttle.allowance(self._services.uptime_ms()))

    def is_followed_by(self, driver: ReplicaDriver, follower: int, since_ms: int) -> bool:
        session = self._sessions.get(follower)
        progress = driver.replica.progress.get(follower)
        if session is None or progress is None or session.heard_ms < since_ms:
            return False
        # A follower requests a partition again after a response, unless it now follows another leader.
        return driver in session.items or progress.fetched_ms >= since_ms

    def followed_until_ms(self, driver: ReplicaDriver, follower: int) -> int:
        """When the newest response was sent after which the follower has shown that it still follows."""
        session = self._sessions.get(follower)
        progress = driver.replica.progress.get(follower)
        if session is None or progress is None:
            return NEVER_MS
        if driver in session.items:
            return session.confirmed_ms
        # A follower requests a partition again after a response, unless it now follows another leader.
        return min(session.confirmed_ms, progress.fetched_ms)

    def tick(self, now_ms: int) -> None:
        for session in list(self._sessions.values()):
            if session.parked and (session.news or session.commits):
                self._reply(session, [], with_commits=now_ms >= session.commits_due_ms)
            if session.parked and now_ms >= session.deadline_ms:
                self._respond_to_session(session, [])

    def _reply(self, session: FollowerSession, parts: list[FetchPart], *, with_commits: bool = False) -> None:
        """Send what is new, held high watermarks included. If nothing is, the request stays pending.
        ``with_commits``: also if held high watermarks are the only news.
        """
        room, unread = session.max_bytes, Unread()
        room = self._collect(session, parts, room, unread)
        if session.commits and (parts or with_commits):
            session.news.update(session.commits)
            session.commits.clear()
            self._collect(session, parts, room, unread)
        if parts:
            self._respond_to_session(session, parts)

    def _collect(self, session: FollowerSession, parts: list[FetchPart], room: int, unread: Unread) -> int:
        """Add what is new to ``parts``. Returns how many bytes there is room for after that."""
        items = session.items
        for driver in list(session.news):
            if room <= 0:
                break  # The rest goes into the next response.
            limit = self._limit(driver, session.sender, room) if self.throttle.limits else room
            if limit <= 0:
                continue  # The next tick tries again.
            del session.news[driver]
            item = items.get(driver)
            if item is None:
                continue
            part = _part(driver, item, limit, session.sender, unread)
            if part is not None:
                del items[driver]
                parts.append(part)
                if part.records is not None:
                    room -= part.records.size
                    if self.throttle.limits and self._is_throttled(driver, session.sender):
                        self.throttle.spend(part.records.size)
        return room

    def _respond_to_session(self, session: FollowerSession, parts: list[FetchPart]) -> None:
        session.parked = False
        if len(session.answered) >= ANSWERED_MAX:
            session.answered.clear()  # It does not say which responses it has received.
        session.answered[session.generation] = self._services.uptime_ms()
        self._respond(session.sender, session.generation, ErrorCode.NONE, parts)

    def _respond(self, to: int, generation: int, error: ErrorCode, parts: list[FetchPart]) -> None:
        self._peers.send(to, FetchGot(self._me, generation, error, parts))


def _empty_session(session: FollowerSession | None, sender: int) -> FollowerSession:
    """A session without requested partitions. Responses sent earlier may still be confirmed."""
    empty = FollowerSession(sender)
    if session is not None:
        empty.answered, empty.confirmed_ms = session.answered, session.confirmed_ms
    return empty


def _part(
    driver: ReplicaDriver, item: FetchItem, room: int, asker: int, unread: Unread | None = None
) -> FetchPart | None:
    """The response for one partition, or None if there is no news yet."""
    if driver.closed:
        return FetchPart(item.key, item.offset, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replica, log = driver.replica, driver.log
    if item.epoch != replica.epoch:
        return _refusal(driver, item, replica.check_epoch(item.epoch))
    if replica.role is not Role.LEADER and not driver.lends_to(asker):
        return _refusal(driver, item, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    records = None
    if log.end_offset > item.offset:
        try:
            limit = min(room, MAX_BYTES_PER_PARTITION)
            records = log.read(item.offset, limit, log.end_offset, at_least_one_batch=True, unread=unread)
        except Unindexed as unindexed:
            driver.build_indexes(unindexed)
            return None
        except OffsetOutOfRange:
            return _refusal(driver, item, ErrorCode.OFFSET_OUT_OF_RANGE)
        except DamagedSegment as damage:
            driver.damage.found(damage.offset, damage.message)
            return _refusal(driver, item, ErrorCode.KAFKA_STORAGE_ERROR)
        except StorageError:
            return _refusal(driver, item, ErrorCode.KAFKA_STORAGE_ERROR)
    elif not _has_news(driver, item):
        return None
    return FetchPart(
        item.key, item.offset, ErrorCode.NONE, replica.epoch, replica.leader, replica.high_watermark,
        log.start_offset, records, None,
    )  # fmt: skip


def _has_news(driver: ReplicaDriver, item: FetchItem) -> bool:
    """Records, a high watermark, or a later log start that the follower is able to adopt."""
    replica, log = driver.replica, driver.log
    return (
        log.end_offset > item.offset
        or replica.high_watermark > item.high_watermark
        or (
            item.log_start_offset < log.start_offset <= item.high_watermark
            and not driver.snapshots.stand_for_start
        )
    )


def _refusal(
    driver: ReplicaDriver, item: FetchItem, error: ErrorCode, diverging: tuple[int, int] | None = None
) -> FetchPart:
    """A refusal that also names the leader, as far as it is known."""
    replica, snapshot = driver.replica, driver.snapshots.newest
    if error is ErrorCode.OFFSET_OUT_OF_RANGE and snapshot:
        return FetchPart(item.key, item.offset, epoch=replica.epoch, leader=replica.leader, snapshot=snapshot)
    epoch, leader = driver.voter.newest_leader()
    return FetchPart(
        item.key, item.offset, error, epoch, leader, replica.high_watermark, driver.log.start_offset, None,
        diverging,
    )  # fmt: skip
