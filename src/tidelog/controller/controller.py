"""The active controller: registers brokers, detects silent ones, and makes its decisions through the metadata
log.

A state machine: events go in; decisions to make and responses to send come out (:mod:`.effects`).

Only the sessions (when a broker was last heard) are kept here and not in the log. A new controller starts
with a full session for every broker, so that no broker is fenced because the previous controller died.

A broker shuts down in two steps. Its first heartbeat with ``leaving`` makes other brokers lead where they
can; it stays a member and keeps serving. Once it leads no partition that another broker could lead after
catching up, it is fenced and may stop. Both steps can be repeated safely.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET

from tidelog.config import BrokerConfig
from tidelog.controller import brokers, cluster_settings, leader_assignment, leadership, logs, promises
from tidelog.controller.availability import NEWCOMER, UNHEARD, BrokerAvailability
from tidelog.controller.configs import EVERY_BROKER
from tidelog.controller.effects import (
    Balance,
    Decided,
    Decision,
    Effects,
    Fence,
    Reconsider,
    Register,
    Relieve,
    RenewSession,
    Reply,
    Review,
    Submit,
)
from tidelog.controller.image import BrokerImage, ClusterImage
from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    HeartbeatAsk,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    OfflineAsk,
    OfflineGot,
    PromiseConfirmedAsk,
    PromiseConfirmedGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.records import BrokerRegistered, MetadataRecord
from tidelog.controller.review import LeaderReview, is_large
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.machine import Machine

logger = logging.getLogger(__name__)

NEWCOMER_MS = 20_000
# Between two ticks. No heartbeat could be processed during a longer gap, so sessions are extended by the
# rest.
STANDSTILL_MS = 500


class SessionTiming(NamedTuple):
    session_ms: int = 3000  # without a heartbeat for this long, a broker is taken for dead
    grace_ms: int = 100  # after its connection closed


class MetadataView(Protocol):
    """What a controller may query from the metadata store."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def committed_offset(self) -> int: ...


class Controller(Machine):
    SURROUNDINGS = frozenset(
        {"_store", "_timing", "_rules", "_cluster_settings", "_balance_interval_ms", "_me"}
    )

    def __init__(self, store: MetadataView, config: BrokerConfig, timing: SessionTiming) -> None:
        self._store = store
        self._timing = timing
        self._deadlines: dict[int, int] = {}  # broker → when it is taken for dead
        # Broker → when the session that it was given is over on its side. That is later than its deadline if
        # its connections have closed.
        self._sessions: dict[int, int] = {}
        self._registered_ms: dict[int, int] = {}  # when brokers registered with this controller
        # Metadata offset that a fenced broker must have applied before it is unfenced. The records that ended
        # its leaderships are before it. An offset that moved with every decision would be hard to reach.
        self._must_know: dict[int, int] = {}
        self._review = LeaderReview()
        self._now_ms = 0
        # Until when a majority of the controllers is known to have followed this one. Sessions are over only
        # up to then: see :meth:`tick`.
        self._followed_ms = 0
        self._balanced_ms = 0
        self._balance_interval_ms = 0  # 0: leaders stay where they are
        self.active = False
        self._me = config.node_id
        # Heartbeats and losses are numbered in the order in which they arrive: a clock would not distinguish
        # two at the same millisecond.
        self._events = 0
        self._heard: dict[int, int] = {}  # number of the last heartbeat of each broker
        self._doubt = 0  # number of the last loss
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Settings have changed while running."""
        self._rules = Rulebook(config)
        self._cluster_settings = cluster_settings.values_of(config)
        seconds = config.leader_imbalance_check_interval_seconds if config.auto_leader_rebalance_enable else 0
        self._balance_interval_ms = 1000 * seconds

    def activate(self, now_ms: int) -> None:
        """This node leads the metadata log now, and everything that earlier leaders decided is applied.

        Every broker gets a full session, because it sent its heartbeats to another controller until now. So
        does the broker of the previous controller, however long this node has not heard it: other voters may
        have confirmed its session since, and while they were too few to decide, it needed none.
        """
        self.active = True
        self._now_ms = self._followed_ms = now_ms
        self._balanced_ms = now_ms
        self._registered_ms.clear()
        self._must_know.clear()
        self._review.end()
        self._doubt_all()
        brokers = self._store.image.brokers
        self._sessions = {
            broker_id: now_ms + self._timing.session_ms
            for broker_id, broker in brokers.items()
            if not broker.fenced or broker.session_lasts
        }
        self._deadlines = {
            broker_id: end_ms for broker_id, end_ms in self._sessions.items() if not brokers[broker_id].fenced
        }

    def deactivate(self) -> None:
        self.active = False
        self._deadlines.clear()
        self._sessions.clear()
        self._review.end()

    # --- sessions -------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, followed_ms: int) -> Effects:
        """``followed_ms``: until when a majority of the controllers is known to have followed this one, each
        in a process that had then run for a session. No session is recorded as over unless they followed
        after its end. Otherwise that might be committed by a controller that was dead at the time, or a
        moment before: a broker that saw too few of them left goes on without a session, until what it saw is
        one session old.
        """
        self._followed_ms = max(self._followed_ms, min(now_ms, followed_ms))
        return self._expire(now_ms)

    def _expire(self, now_ms: int) -> Effects:
        away_ms = now_ms - self._now_ms - STANDSTILL_MS
        self._now_ms = now_ms
        if not self.active:
            return []
        if away_ms > 0:
            self._deadlines = {broker: deadline + away_ms for broker, deadline in self._deadlines.items()}
        silent = [broker for broker, deadline in self._deadlines.items() if deadline <= now_ms]
        for broker_id in silent:
            del self._deadlines[broker_id]
            self._must_know.pop(broker_id, None)
        effects: Effects = [Submit(Fence(broker_id)) for broker_id in (*silent, *self._end_sessions())]
        if self._review.must_repeat:
            effects.append(Submit(Reconsider()))
        return effects

    def _end_sessions(self) -> list[int]:
        """The brokers that were fenced because their connections closed, and now have no session either, as
        far as it is to be recorded.
        """
        known = self._store.image.brokers
        ended = [
            broker_id
            for broker_id, end_ms in self._sessions.items()
            if end_ms <= self._followed_ms and (broker_id not in known or known[broker_id].fenced)
        ]
        for broker_id in ended:
            del self._sessions[broker_id]
        return self._without_session() if ended else []

    def _without_session(self) -> list[int]:
        """Fenced brokers that may act on a session as far as the metadata says, and do not any more. Only if
        a partition waits for that: with a leader it makes no difference.
        """
        image = self._store.image
        over = [
            each.broker_id
            for each in image.brokers.values()
            if each.session_lasts and each.broker_id not in self._sessions
        ]
        missed = leadership.missed(image) if over else frozenset()
        return [broker_id for broker_id in over if broker_id in missed]

    def broker_lost(self, broker_id: int, now_ms: int, *, dead: bool = False) -> Effects:
        """Its connections closed, so its process is probably dead. It gets a short time to show that it is
        alive, unless it is known to be ``dead``.
        """
        if not self.active:
            return []
        if dead and broker_id in self._sessions:
            self._sessions[broker_id] = min(self._sessions[broker_id], self._followed_ms)
        if broker_id in self._deadlines:
            self._doubt_all()
            deadline = now_ms if dead else now_ms + self._timing.grace_ms
            self._deadlines[broker_id] = min(self._deadlines[broker_id], deadline)
        return self._expire(now_ms) if dead else []

    def _rank(self, broker_id: int) -> int:
        """A broker that has just restarted leads only if no other broker can: its caches are cold, and
        clients that just lost it wait before they reconnect.
        """
        since_ms = self._registered_ms.get(broker_id)
        newcomer = NEWCOMER if since_ms is not None and self._now_ms - since_ms <= NEWCOMER_MS else 0
        return newcomer if self._is_heard(broker_id) else newcomer | UNHEARD

    def _is_heard(self, broker_id: int) -> bool:
        return broker_id == self._me or self._heard.get(broker_id, -1) >= self._doubt

    def _doubt_all(self) -> None:
        """A broker is lost. Brokers that are to take over must be heard again first."""
        self._events += 1
        self._doubt = self._events

    def _hear(self, broker_id: int) -> Effects:
        unheard = not self._is_heard(broker_id)
        self._events += 1
        self._heard[broker_id] = self._events
        return [Submit(Reconsider())] if unheard else []

    # --- leader balance -------------------------------------------------------------------------------------

    def keep_in_order(self, now_ms: int) -> Effects:
        """Move leaderships away from drained brokers, and from time to time back to the preferred
        replicas.
        """
        effects: Effects = []
        if not self.active:
            return effects
        effects += [Submit(Fence(broker_id)) for broker_id in self._without_session()]
        image = self._store.image
        available = BrokerAvailability.of(image)
        if next(leadership.strays(image, available), None) is not None:
            effects.append(Submit(Reconsider()))
        interval_ms = self._balance_interval_ms
        if interval_ms and now_ms - self._balanced_ms >= interval_ms:
            self._balanced_ms = now_ms
            if next(leadership.misplaced(image, available), None) is not None:
                effects.append(Submit(Balance()))
        return effects

    @property
    def has_more_to_review(self) -> bool:
        """Whether :meth:`review` is to be called in a moment."""
        return self.active and self._review.has_more

    def review(self) -> Effects:
        """The next partitions, where there are too many to look at all of them at once."""
        return [Submit(Review(self._review.next_slice()))] if self.has_more_to_review else []

    # --- requests -------------------------------------------------------------------------------------------

    def handle(self, ask: ControllerAsk, now_ms: int, token: int) -> Effects:
        """The response comes as a :class:`.Reply` with ``token``."""
        if isinstance(ask, HeartbeatAsk):
            return self._heartbeat(ask, now_ms, token)
        return [Submit(Register(ask, now_ms) if isinstance(ask, RegisterAsk) else ask, token)]

    def _heartbeat(self, ask: HeartbeatAsk, now_ms: int, token: int) -> Effects:
        broker = self._store.image.brokers.get(ask.broker_id)
        error = self._check_sender(ask, broker)
        if error is not ErrorCode.NONE or broker is None:
            got = HeartbeatGot(ask.broker_id, ask.broker_epoch, error, fenced=True, number=ask.number)
            return [Reply(token, got)]
        self._deadlines[ask.broker_id] = now_ms + self._timing.session_ms
        effects = self._hear(ask.broker_id)
        if ask.leaving:
            self._sessions[ask.broker_id] = now_ms + self._timing.session_ms
            return [*effects, Submit(Relieve(ask), token)]
        may_return = False
        if broker.fenced and not self._review.in_progress:
            must_know = self._must_know.setdefault(ask.broker_id, self._store.committed_offset)
            # It has applied the records that ended its leaderships, so it will not act on outdated metadata.
            may_return = ask.metadata_offset >= must_know
        return [*effects, Submit(RenewSession(ask, may_return, now_ms), token)]

    def _check_sender(self, ask: HeartbeatAsk, broker: BrokerImage | None) -> ErrorCode:
        if not self.active:
            return ErrorCode.NOT_CONTROLLER
        if broker is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        return ErrorCode.NONE if broker.broker_epoch == ask.broker_epoch else ErrorCode.STALE_BROKER_EPOCH

    # --- decisions ------------------------------------------------------------------------------------------

    def decide(self, decision: Decision, image: ClusterImage) -> Decided:
        """The records to write, based on all earlier decisions, committed or not. Refuses by raising a
        ``TidelogError``.
        """
        return _DECIDE[type(decision)](self, decision, image)

    def _reconsider(self, decision: Reconsider, image: ClusterImage) -> Decided:
        return Decided(self._with_leaders(image, []))

    def _with_leaders(self, image: ClusterImage, records: list[MetadataRecord]) -> list[MetadataRecord]:
        """These changes, and what follows from them for the partitions: at once, or where there are many, in
        the slices of a review that begins with it. So it is while a review is in progress: it must end with a
        slice, even if few partitions are left.
        """
        if not is_large(image) and not self._review.is_wanted:
            return brokers.with_leaders(image, records, self._rules.at(image), self._rank)
        self._begin_review(image)
        return records

    def _begin_review(self, image: ClusterImage) -> None:
        self._review.begin(image)
        # What ends leaderships is yet to come: what was enough to know is not any more.
        self._must_know.clear()

    def _review_some(self, decision: Review, image: ClusterImage) -> Decided:
        return Decided(self._review.take_some(image, self._rules.at(image), self._rank))

    def _balance(self, decision: Balance, image: ClusterImage) -> Decided:
        return Decided(leadership.balance(image, self._rank))

    def _fence(self, decision: Fence, image: ClusterImage) -> Decided:
        broker_id = decision.broker_id
        broker = image.brokers.get(broker_id)
        end_ms = self._sessions.get(broker_id, self._followed_ms)
        session_lasts = end_ms > self._followed_ms
        if broker is None or (broker.fenced and broker.session_lasts <= session_lasts):
            return Decided([])
        if not broker.fenced:
            why = "its connections are closed" if end_ms > self._now_ms else "its session has expired"
            logger.warning("broker %s is fenced: %s", broker_id, why)
        return Decided(self._with_leaders(image, [brokers.fenced(broker_id, session_lasts=session_lasts)]))

    def _change_in_sync(self, ask: InSyncAsk, image: ClusterImage) -> Decided:
        # A refusal, too, counts only when it is committed. If the leader learned of it earlier, it would give
        # up a member that the next controller, which does not know of the refusal, may accept.
        return Decided(
            *leader_assignment.change_in_sync(image, ask.proposal, self._rules.at(image), self._rank)
        )

    def _confirm(self, ask: PromiseConfirmedAsk, image: ClusterImage) -> Decided:
        return Decided(
            promises.confirm(image, ask.broker_id, ask.broker_epoch, ask.confirmed, self._rules.at(image))
        )

    def _change_logs(self, ask: OfflineAsk, image: ClusterImage) -> Decided:
        decide = logs.bring_online if ask.healed else logs.fail if ask.unwritable else logs.take_offline
        late = logs.outdated(image, ask.broker_id, ask.partitions, ask.partition_epochs)
        partitions = [key for key in ask.partitions if key not in late]
        records = decide(
            image, ask.broker_id, ask.broker_epoch, partitions, self._rules.at(image), self._rank
        )
        return Decided(records, ErrorCode.INVALID_UPDATE_VERSION if late else ErrorCode.NONE)

    def _register(self, decision: Register, image: ClusterImage) -> Decided:
        ask, now_ms = decision
        known = image.brokers.get(ask.broker_id)
        if known is not None and known.incarnation == ask.incarnation:
            return Decided([])  # The same process registers again: the response was lost.
        # A data directory is locked by the process that uses it: the same directory proves that the old
        # process is dead. Another directory may belong to a second broker with this id. The first one may
        # acknowledge records until its session is over, also if it is fenced.
        same = known is not None and known.directory in (None, ask.directory)
        lives = known is not None and not known.fenced and self._deadlines.get(ask.broker_id, 0) > now_ms
        has_session = self._sessions.get(ask.broker_id, 0) > self._followed_ms
        if known is not None and not same and (lives or has_session):
            raise TidelogError(
                f"broker {ask.broker_id} is registered and alive", ErrorCode.DUPLICATE_BROKER_REGISTRATION
            )
        brokers.check_newest(image, ask.broker_id, ask.known_epoch)
        self._sessions.pop(ask.broker_id, None)
        if known is not None and not known.fenced:
            self._doubt_all()  # Its death went unnoticed, so that of others may have, too.
        empty = known is not None and not same
        if empty:
            logger.warning("broker %s has registered with another disk", ask.broker_id)
        self._compare_settings(ask, image)
        large = is_large(image)
        if large:
            self._begin_review(image)
        return Decided(
            brokers.register(
                image,
                _registration(image, ask),
                self._rules.at(image),
                self._rank,
                forgot=ask.forgot,
                empty=empty,
                others_later=large,
            )
        )

    def _compare_settings(self, ask: RegisterAsk, image: ClusterImage) -> None:
        for name, ours, theirs in cluster_settings.differences(
            self._cluster_settings, ask.cluster_settings, image.broker_configs.get(EVERY_BROKER, {})
        ):
            logger.warning(
                "broker %s has %s=%s, but this controller has %s. The broker uses its value where it leads, "
                "and the controller its own to appoint leaders, so records may be lost. Give all config "
                "files the same value, or set it for all brokers (tidelog config set)",
                ask.broker_id, name, theirs, ours,
            )  # fmt: skip

    def _renew_session(self, decision: RenewSession, image: ClusterImage) -> Decided:
        """Whether a broker is fenced, based on all decisions. "Not fenced" gives it a session, so it must not
        be sent while a decision that ends its leaderships is being committed.
        """
        ask = decision.ask
        broker = image.brokers.get(ask.broker_id)
        if broker is None or broker.broker_epoch != ask.broker_epoch:
            return Decided([], verdict=True)
        if broker.fenced and not (decision.may_return and not self._review.in_progress):
            return Decided([], verdict=True)
        # Counted here: the broker may be let in by a decision that is not committed yet, while this heartbeat
        # would not let it in.
        end_ms = decision.now_ms + self._timing.session_ms
        self._sessions[ask.broker_id] = max(self._sessions.get(ask.broker_id, end_ms), end_ms)
        if not broker.fenced:
            return Decided([], verdict=False)
        logger.info("broker %s is unfenced", ask.broker_id)
        return Decided(self._with_leaders(image, [brokers.unfenced(ask.broker_id)]), verdict=False)

    def _relieve(self, decision: Relieve, image: ClusterImage) -> Decided:
        """Other brokers take over first, then it may stop. The verdict is whether it may."""
        ask, broker_id = decision.ask, decision.ask.broker_id
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.broker_epoch != ask.broker_epoch:
            return Decided([], verdict=True)
        if not broker.leaving:
            logger.info("broker %s is shutting down", broker_id)
            return Decided(self._with_leaders(image, [brokers.leaving(broker_id)]), verdict=False)
        # It asks again, so it has had time to learn of the new leaders. It keeps serving the partitions that
        # others could lead after catching up. How long it waits for that is its own decision.
        if self._review.in_progress or brokers.is_needed(image, broker_id):
            return Decided([], verdict=False)
        # It stops when it hears of it.
        return Decided(
            self._with_leaders(image, [brokers.fenced(broker_id, session_lasts=True)]), verdict=True
        )

    # --- responses ------------------------------------------------------------------------------------------

    def committed(self, submitted: Submit, verdict: ErrorCode | bool | None, error: ErrorCode) -> Effects:
        """A decision is committed and applied, or has failed with ``error``. ``verdict``: what :meth:`decide`
        returned, None if it was not called.
        """
        if isinstance(submitted.decision, Review):
            return self._reviewed(submitted.decision, error)
        got = self._response_to(submitted.decision, verdict, error)
        return [] if submitted.token is None or got is None else [Reply(submitted.token, got)]

    def _reviewed(self, decision: Review, error: ErrorCode) -> Effects:
        """A slice is committed. If it may not be, all is looked at again later: no broker is let in before
        the end of its leaderships is certain.
        """
        if error is not ErrorCode.NONE:
            self._review.fail()
        else:
            self._review.committed(decision.number)
        return []

    def _response_to(
        self, decision: Decision, verdict: ErrorCode | bool | None, error: ErrorCode
    ) -> ControllerGot | None:
        match decision:
            case Register():
                return self._registered(decision, error)
            case RenewSession(ask, _, _):
                fenced = verdict is not False
                return HeartbeatGot(ask.broker_id, ask.broker_epoch, error, fenced, number=ask.number)
            case Relieve(ask):
                granted = verdict is True and error is ErrorCode.NONE
                if granted:
                    self._deadlines.pop(ask.broker_id, None)
                return HeartbeatGot(ask.broker_id, ask.broker_epoch, error, granted, granted, ask.number)
            case InSyncAsk(proposal):
                refusal = verdict if isinstance(verdict, ErrorCode) else ErrorCode.NONE
                return InSyncGot(proposal, error or refusal)
            case PromiseConfirmedAsk(broker_id, broker_epoch, confirmed):
                return PromiseConfirmedGot(broker_id, broker_epoch, confirmed, error)
            case OfflineAsk(broker_id, broker_epoch, partitions, healed, unwritable):
                refusal = verdict if isinstance(verdict, ErrorCode) else ErrorCode.NONE
                return OfflineGot(broker_id, broker_epoch, partitions, error or refusal, healed, unwritable)
        return None  # The controller's own decision: there is no request to answer.

    def _registered(self, decision: Register, code: ErrorCode) -> RegisterGot:
        ask, now_ms = decision
        image = self._store.image
        broker = image.brokers.get(ask.broker_id)
        if code is ErrorCode.NONE and (broker is None or broker.incarnation != ask.incarnation):
            code = ErrorCode.STALE_BROKER_EPOCH  # Another process registered before this was committed.
        if code is ErrorCode.NONE:
            self._registered_ms[ask.broker_id] = now_ms
            self._must_know[ask.broker_id] = self._store.committed_offset
        # A process that must register again is told a committed epoch, too. Any other epoch may be given to
        # its successor, and a late copy of its next request would then seem to know of that one.
        told = code in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH)
        epoch = image.registration_epoch(ask.broker_id) if told else -1
        return RegisterGot(ask.broker_id, ask.incarnation, code, epoch)


_DECIDE: Mapping[type, Callable[[Controller, Any, ClusterImage], Decided]] = {
    Fence: Controller._fence,
    Reconsider: Controller._reconsider,
    Review: Controller._review_some,
    Balance: Controller._balance,
    Register: Controller._register,
    RenewSession: Controller._renew_session,
    Relieve: Controller._relieve,
    InSyncAsk: Controller._change_in_sync,
    PromiseConfirmedAsk: Controller._confirm,
    OfflineAsk: Controller._change_logs,
}


def _registration(image: ClusterImage, ask: RegisterAsk) -> BrokerRegistered:
    return BrokerRegistered(
        ask.broker_id,
        ask.incarnation,
        ask.host,
        ask.port,
        ask.rack,
        image.last_broker_epoch + 1,
        fenced=True,
        directory=ask.directory,
        endpoints=list(ask.endpoints) or UNSET,
    )
