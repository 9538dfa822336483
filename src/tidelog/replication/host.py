"""All replicas of one node: fetch loops towards leaders, answers to followers, votes, the clock.

**Following.** One loop per leader, whatever the number and modes of the partitions: an ask names every
partition that follows that leader and may go on; the answer is taken, and the next ask leaves at once. A
partition that becomes ready while an ask is parked at the leader leaves with a newer ask, and the leader lets
go of the older one.

**Leading.** An ask that brings nothing new is parked until something is appended or committed, or its time is
up; the empty answer is the heartbeat that keeps followers from electing.

Knows no sockets and no threads: :class:`~tidelog.replication.messages.Peers` carries messages, services tell
the time.
"""

import logging
from collections.abc import Callable

from tidelog.errors import ErrorCode, OffsetOutOfRange, StorageError, TidelogError
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.election import AnswerVote, AskVote
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import (
    FetchAsk,
    FetchGot,
    FetchItem,
    FetchPart,
    Message,
    PartitionKey,
    Peers,
    VoteAnswered,
    VoteAsked,
)
from tidelog.replication.replica import Role
from tidelog.services import Services, Timer
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)

TICK_MS = 20
MAX_BYTES_PER_PARTITION = 1 << 20


class Host:
    def __init__(self, me: int, services: Services, peers: Peers, chance: Callable[[], float]) -> None:
        self.me = me
        self._services = services
        self._peers = peers
        self._chance = chance
        self.hosted: dict[PartitionKey, Hosted] = {}
        self._loops: dict[int, FetchLoop] = {}
        self._parked: dict[int, Parked] = {}  # The one ask of each follower that waits here.
        self._ticker: Timer | None = None
        self._stopped = False
        # Whoever embeds the host listens here.
        self.on_committed: Callable[[Hosted], None] = lambda hosted: None
        self.on_role: Callable[[Hosted], None] = lambda hosted: None
        self.on_proposal: Callable[[Hosted, ProposeInSync], None] = lambda hosted, proposal: None
        self.on_failed: Callable[[Hosted, StorageError], None] = lambda hosted, error: None

    def start(self) -> None:
        self._ticker = self._services.later(TICK_MS, self._tick)

    def stop(self) -> None:
        self._stopped = True
        if self._ticker is not None:
            self._ticker.cancel()
        for loop in self._loops.values():
            loop.stop()
        for parked in self._parked.values():
            parked.timer.cancel()
        self._parked.clear()

    def add(self, hosted: Hosted) -> None:
        self.hosted[hosted.key] = hosted

    def remove(self, key: PartitionKey, error: ErrorCode) -> None:
        hosted = self.hosted.pop(key)
        hosted.stop(error)
        for loop in self._loops.values():
            loop.forget(key)

    # --- the clock ------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopped:
            return
        now_ms = self._services.now_ms()
        for hosted in list(self.hosted.values()):
            hosted.run(hosted.replica.tick(now_ms))
            if hosted.election is not None and not hosted.closed:
                hosted.elect(hosted.election.tick(now_ms, self._chance(), hosted.tail))
        for loop in self._loops.values():
            loop.tick(now_ms)
        self._ticker = self._services.later(TICK_MS, self._tick)

    # --- messages -------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        if self._stopped:
            return
        match message:
            case FetchAsk():
                self._serve(message)
            case FetchGot():
                loop = self._loops.get(message.sender)
                if loop is not None:
                    loop.answered(message, self._services.now_ms())
            case VoteAsked(sender, key, ask):
                hosted = self.hosted.get(key)
                if hosted is not None and hosted.election is not None and sender == ask.candidate:
                    now_ms = self._services.now_ms()
                    hosted.elect(hosted.election.vote_asked(ask, now_ms, self._chance(), hosted.tail))
            case VoteAnswered(_, key, got):
                hosted = self.hosted.get(key)
                if hosted is not None and hosted.election is not None:
                    now_ms = self._services.now_ms()
                    hosted.elect(hosted.election.vote_got(got, now_ms, self._chance(), hosted.tail))

    def peer_lost(self, peer: int) -> None:
        """The connection to a node closed: leaders there are probably dead."""
        now_ms = self._services.now_ms()
        for hosted in self.hosted.values():
            if hosted.election is not None:
                hosted.election.leader_lost(peer, now_ms, self._chance())
        loop = self._loops.get(peer)
        if loop is not None:
            loop.lost(now_ms)

    # --- leading: answers to followers ----------------------------------------------------------------------

    def _serve(self, ask: FetchAsk) -> None:
        previous = self._parked.pop(ask.sender, None)
        if previous is not None:
            previous.timer.cancel()
            if previous.ask.generation > ask.generation:
                return  # Overtaken on the way: the newer one was here already, and its follower has moved on.
            self._peers.send(ask.sender, FetchGot(self.me, previous.ask.generation, []))
        parts = [self._part(ask.sender, item) for item in ask.items]
        now_waiting = all(_is_idle(part, item) for part, item in zip(parts, ask.items, strict=True))
        if now_waiting and ask.max_wait_ms > 0:
            timer = self._services.later(ask.max_wait_ms, lambda: self._release(ask.sender, ask))
            self._parked[ask.sender] = Parked(ask, timer)
        else:
            self._peers.send(ask.sender, FetchGot(self.me, ask.generation, parts))

    def _part(self, sender: int, item: FetchItem) -> FetchPart:
        hosted = self.hosted.get(item.key)
        if hosted is None or hosted.closed:
            return FetchPart(item.key, item.offset, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica, election = hosted.replica, hosted.election
        now_ms = self._services.now_ms()
        answer = replica.fetched(
            sender, item.epoch, item.offset, item.last_epoch, item.log_start_offset, now_ms
        )
        if election is not None and answer.error is ErrorCode.NONE:
            election.voter_heard(sender, now_ms)
        hosted.run(answer.effects)
        return self._answer(hosted, item, answer.error, answer.diverging)

    def _answer(
        self, hosted: Hosted, item: FetchItem, error: ErrorCode, diverging: tuple[int, int] | None
    ) -> FetchPart:
        replica, log = hosted.replica, hosted.log
        records = None
        if error is ErrorCode.NONE and diverging is None:
            try:
                region = log.read(
                    item.offset, MAX_BYTES_PER_PARTITION, log.end_offset, at_least_one_batch=True
                )
                records = region if region.size else None
            except OffsetOutOfRange:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            except StorageError:
                error = ErrorCode.KAFKA_STORAGE_ERROR
        leader = hosted.election.leader if hosted.election is not None else replica.leader
        epoch = hosted.election.epoch if hosted.election is not None else replica.epoch
        return FetchPart(
            item.key,
            item.offset,
            error,
            epoch,
            leader,
            replica.high_watermark,
            log.start_offset,
            records,
            diverging,
        )

    def _release(self, sender: int, ask: FetchAsk) -> None:
        parked = self._parked.get(sender)
        if parked is None or parked.ask is not ask:
            return
        del self._parked[sender]
        parked.timer.cancel()
        parts = [
            self._answer(hosted, item, hosted.replica.check_epoch(item.epoch), None)
            for item in ask.items
            if (hosted := self.hosted.get(item.key)) is not None and hosted.replica.role is Role.LEADER
        ]
        gone = [
            FetchPart(
                item.key,
                item.offset,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                hosted.replica.epoch,
                hosted.replica.leader,
            )
            for item in ask.items
            if (hosted := self.hosted.get(item.key)) is not None and hosted.replica.role is not Role.LEADER
        ]
        self._peers.send(sender, FetchGot(self.me, ask.generation, parts + gone))

    def _wake(self, hosted: Hosted) -> None:
        """Answer the followers that wait for this partition; soon, so that what comes along goes along."""
        for sender, parked in list(self._parked.items()):
            if not parked.waking and any(item.key == hosted.key for item in parked.ask.items):
                parked.waking = True
                self._services.soon(lambda sender=sender, ask=parked.ask: self._release(sender, ask))  # type: ignore[misc]

    # --- the replicas' listener -----------------------------------------------------------------------------

    def grown(self, hosted: Hosted) -> None:
        if hosted.replica.role is Role.LEADER:
            self._wake(hosted)
        else:
            self._go_on(hosted)

    def committed(self, hosted: Hosted) -> None:
        if hosted.replica.role is Role.LEADER:
            self._wake(hosted)
        self.on_committed(hosted)

    def role_changed(self, hosted: Hosted) -> None:
        for loop in self._loops.values():
            loop.forget(hosted.key)
        self._wake(hosted)
        self._go_on(hosted)
        self.on_role(hosted)

    def _go_on(self, hosted: Hosted) -> None:
        replica = hosted.replica
        if replica.role is not Role.FOLLOWER or replica.leader in (NO_BROKER, self.me):
            return
        loop = self._loops.get(replica.leader)
        if loop is None:
            loop = FetchLoop(
                self.me, replica.leader, self._services, self._peers, self._leader_heard, self._leader_named
            )
            self._loops[replica.leader] = loop
        loop.want(hosted)

    def _leader_heard(self, hosted: Hosted, leader: int, epoch: int) -> None:
        if hosted.election is not None and leader != NO_BROKER:
            hosted.elect(hosted.election.leader_heard(leader, epoch, self._services.now_ms()))

    def _leader_named(self, hosted: Hosted, leader: int, epoch: int) -> None:
        election = hosted.election
        if election is None or epoch < election.epoch:
            return
        now_ms = self._services.now_ms()
        if leader != NO_BROKER:
            hosted.elect(election.leader_named(leader, epoch, now_ms))
        elif epoch == election.epoch:
            election.leader_lost(election.leader, now_ms, self._chance())  # It has resigned.

    def proposed(self, hosted: Hosted, proposal: ProposeInSync) -> None:
        self.on_proposal(hosted, proposal)

    def ask_vote(self, hosted: Hosted, effect: AskVote) -> None:
        self._peers.send(effect.voter, VoteAsked(self.me, hosted.key, effect.ask))

    def answer_vote(self, hosted: Hosted, effect: AnswerVote) -> None:
        self._peers.send(effect.asker, VoteAnswered(self.me, hosted.key, effect.got))

    def failed(self, hosted: Hosted, error: StorageError) -> None:
        try:
            hosted.run(hosted.replica.stop(ErrorCode.KAFKA_STORAGE_ERROR))
        except TidelogError:
            logger.exception("%s could not be stopped", hosted.key)
        self.on_failed(hosted, error)


class Parked:
    __slots__ = ("ask", "timer", "waking")

    def __init__(self, ask: FetchAsk, timer: Timer) -> None:
        self.ask = ask
        self.timer = timer
        self.waking = False


def _is_idle(part: FetchPart, item: FetchItem) -> bool:
    """Whether an answer would tell the follower nothing."""
    return (
        part.error is ErrorCode.NONE
        and part.diverging is None
        and part.records is None
        and part.high_watermark <= item.high_watermark
    )
