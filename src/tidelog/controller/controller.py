"""The active controller: registers brokers, notices their silence, and decides through the metadata log.

A state machine: events go in, and what is to be decided and answered comes out (:mod:`.effects`).

Only sessions (when a broker was last heard of) live here and not in the log: a new controller begins with a
full session for everybody, and so fences nobody for its predecessor's death.

A broker stops in two steps. Its first heartbeat that asks to leave makes others lead what they can; it stays
a member and serves on. Once it leads nothing that another could lead after some catching up, it is fenced and
may stop. Both steps may be asked for any number of times.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

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
    Keep,
    Reconsider,
    Register,
    Relieve,
    Reply,
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
    KeptAsk,
    KeptGot,
    OfflineAsk,
    OfflineGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.records import BrokerRegistered
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.machine import Machine

logger = logging.getLogger(__name__)

NEWCOMER_MS = 20_000
NO_TIMES: Mapping[int, int] = {}
STANDSTILL_MS = 500  # Between two ticks. Nobody could be heard for the rest, so nobody is judged by it.


class SessionTiming(NamedTuple):
    session_ms: int = 3000  # without a heartbeat for so long, a broker is taken for dead
    grace_ms: int = 100  # after its connection closed


class MetadataView(Protocol):
    """What a controller may ask the metadata store."""

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
        self._registered_ms: dict[int, int] = {}  # when brokers came (back) under this controller
        # How much of the metadata a fenced broker must know before it is let in again. What ended its
        # leaderships lies before; a goal that moves on with every decision would be hard to reach.
        self._must_know: dict[int, int] = {}
        self._now_ms = 0
        self._balanced_ms = 0
        self._balance_interval_ms = 0  # 0: leaders stay where they are
        self.active = False
        self._me = config.node_id
        # Signs of life and losses in the order in which they came: a clock would not tell two of the same
        # moment apart.
        self._events = 0
        self._heard: dict[int, int] = {}  # the last sign of life of each broker
        self._doubt = 0  # the last loss
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Settings have changed while running."""
        self._rules = Rulebook(config)
        self._cluster_settings = cluster_settings.values_of(config)
        seconds = config.leader_imbalance_check_interval_seconds if config.auto_leader_rebalance_enable else 0
        self._balance_interval_ms = 1000 * seconds

    def activate(self, now_ms: int, silent_since_ms: Mapping[int, int] = NO_TIMES) -> None:
        """This node leads the metadata log now, and everything earlier leaders decided is applied.

        Everybody gets a whole session to be heard of, for they spoke to another controller until now. Not so
        that one itself, which was given up because it was silent: its session began when it was last heard.
        """
        self.active = True
        self._now_ms = now_ms
        self._balanced_ms = now_ms
        self._registered_ms.clear()
        self._must_know.clear()
        self._doubt_all()
        self._deadlines = {
            broker_id: max(
                silent_since_ms.get(broker_id, now_ms) + self._timing.session_ms,
                now_ms + self._timing.grace_ms,
            )
            for broker_id, broker in self._store.image.brokers.items()
            if not broker.fenced
        }

    def deactivate(self) -> None:
        self.active = False
        self._deadlines.clear()

    # --- silence --------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Effects:
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
        return [Submit(Fence(broker_id)) for broker_id in silent]

    def broker_lost(self, broker_id: int, now_ms: int, *, dead: bool = False) -> Effects:
        """Its connections closed: probably its process is dead. It has a short time to show that it is not,
        unless it is known to be ``dead``.
        """
        if not self.active or broker_id not in self._deadlines:
            return []
        self._doubt_all()
        deadline = now_ms if dead else now_ms + self._timing.grace_ms
        self._deadlines[broker_id] = min(self._deadlines[broker_id], deadline)
        return self.tick(now_ms) if dead else []

    def _rank(self, broker_id: int) -> int:
        """Who has just come back leads only if nobody else can: its caches are cold, and clients that lost it
        a moment ago wait before they connect to it again.
        """
        since_ms = self._registered_ms.get(broker_id)
        newcomer = NEWCOMER if since_ms is not None and self._now_ms - since_ms <= NEWCOMER_MS else 0
        return newcomer if self._is_heard(broker_id) else newcomer | UNHEARD

    def _is_heard(self, broker_id: int) -> bool:
        return broker_id == self._me or self._heard.get(broker_id, -1) >= self._doubt

    def _doubt_all(self) -> None:
        """Somebody is lost. Whoever is to go on without it must be heard again first."""
        self._events += 1
        self._doubt = self._events

    def _hear(self, broker_id: int) -> Effects:
        unheard = not self._is_heard(broker_id)
        self._events += 1
        self._heard[broker_id] = self._events
        return [Submit(Reconsider())] if unheard else []

    # --- order ----------------------------------------------------------------------------------------------

    def keep_in_order(self, now_ms: int) -> Effects:
        """Leadership where it belongs: away from brokers that are drained, and now and then back to the
        preferred replicas.
        """
        effects: Effects = []
        if not self.active:
            return effects
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

    # --- requests -------------------------------------------------------------------------------------------

    def handle(self, ask: ControllerAsk, now_ms: int, token: int) -> Effects:
        """The answer comes as a :class:`.Reply` with ``token``."""
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
            return [*effects, Submit(Relieve(ask), token)]
        may_return = False
        if broker.fenced:
            must_know = self._must_know.setdefault(ask.broker_id, self._store.committed_offset)
            # It knows what ended its leaderships, so it will not act on an old picture.
            may_return = ask.metadata_offset >= must_know
        return [*effects, Submit(Keep(ask, may_return), token)]

    def _check_sender(self, ask: HeartbeatAsk, broker: BrokerImage | None) -> ErrorCode:
        if not self.active:
            return ErrorCode.NOT_CONTROLLER
        if broker is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        return ErrorCode.NONE if broker.broker_epoch == ask.broker_epoch else ErrorCode.STALE_BROKER_EPOCH

    # --- decisions ------------------------------------------------------------------------------------------

    def decide(self, decision: Decision, image: ClusterImage) -> Decided:
        """What to write, by all that was decided before, committed or not. Refuses by raising a
        ``TidelogError``.
        """
        return _DECIDE[type(decision)](self, decision, image)

    def _reconsider(self, decision: Reconsider, image: ClusterImage) -> Decided:
        return Decided([*leader_assignment.assign_leaders(image, self._rules.at(image), self._rank)])

    def _balance(self, decision: Balance, image: ClusterImage) -> Decided:
        return Decided(leadership.balance(image, self._rank))

    def _fence(self, decision: Fence, image: ClusterImage) -> Decided:
        broker_id = decision.broker_id
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return Decided([])
        logger.warning("broker %s is fenced: nothing was heard of it", broker_id)
        return Decided(brokers.fence(image, broker_id, self._rules.at(image), self._rank))

    def _change_in_sync(self, ask: InSyncAsk, image: ClusterImage) -> Decided:
        # A refusal counts when it is committed, too. Told before, the leader would give up a member that the
        # next controller, which knows nothing of it, may take.
        return Decided(*leader_assignment.change_in_sync(image, ask.wish, self._rules.at(image), self._rank))

    def _confirm(self, ask: KeptAsk, image: ClusterImage) -> Decided:
        return Decided(
            promises.confirm(image, ask.broker_id, ask.broker_epoch, ask.kept, self._rules.at(image))
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
            return Decided([])  # The same process asks again: its answer was lost.
        # A data directory is locked by the process that uses it: the same one shows that the old process is
        # dead. Another one may belong to a second broker with this id.
        same = known is not None and known.directory in (None, ask.directory)
        lives = self._deadlines.get(ask.broker_id, 0) > now_ms
        if known is not None and not known.fenced and lives and not same:
            raise TidelogError(
                f"broker {ask.broker_id} is registered and alive", ErrorCode.DUPLICATE_BROKER_REGISTRATION
            )
        brokers.check_newest(image, ask.broker_id, ask.known_epoch)
        if known is not None and not known.fenced:
            self._doubt_all()  # Its end went unnoticed, so others' may have.
        empty = known is not None and not same
        if empty:
            logger.warning("broker %s has come back with another disk", ask.broker_id)
        self._compare_settings(ask, image)
        return Decided(
            brokers.register(
                image,
                _registration(image, ask),
                self._rules.at(image),
                self._rank,
                forgot=ask.forgot,
                empty=empty,
            )
        )

    def _compare_settings(self, ask: RegisterAsk, image: ClusterImage) -> None:
        for name, ours, theirs in cluster_settings.differences(
            self._cluster_settings, ask.cluster_settings, image.broker_configs.get(EVERY_BROKER, {})
        ):
            logger.warning(
                "broker %s starts with %s=%s, and this controller with %s: the one counts where that broker "
                "leads, the other when leaders are chosen, and records may be lost by it. Give all config "
                "files the same value, or set it for all brokers (tidelog config set)",
                ask.broker_id, name, theirs, ours,
            )  # fmt: skip

    def _keep(self, decision: Keep, image: ClusterImage) -> Decided:
        """Whether a broker is fenced, by all that was decided: that it is not is worth a session to it, and
        must not be said while the decision that ends its leaderships is being committed.
        """
        ask = decision.ask
        broker = image.brokers.get(ask.broker_id)
        if broker is None or broker.broker_epoch != ask.broker_epoch:
            return Decided([], verdict=True)
        fenced = broker.fenced and not decision.may_return
        if fenced or not broker.fenced:
            return Decided([], verdict=fenced)
        logger.info("broker %s is back", ask.broker_id)
        unfenced = brokers.unfence(image, ask.broker_id, self._rules.at(image), self._rank)
        return Decided(unfenced, verdict=False)

    def _relieve(self, decision: Relieve, image: ClusterImage) -> Decided:
        """Others take over first, then it may go; whether it may is the verdict."""
        ask, broker_id = decision.ask, decision.ask.broker_id
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.broker_epoch != ask.broker_epoch:
            return Decided([], verdict=True)
        rules_of = self._rules.at(image)
        if not broker.leaving:
            logger.info("broker %s wants to stop", broker_id)
            return Decided(brokers.leave(image, broker_id, rules_of, self._rank), verdict=False)
        # It asks again, so it has had time to hear that others lead. It serves on for those that others could
        # lead when they have caught up; how long that is worth waiting for is its own decision.
        if brokers.is_needed(image, broker_id):
            return Decided([], verdict=False)
        return Decided(brokers.fence(image, broker_id, rules_of, self._rank), verdict=True)

    # --- answers --------------------------------------------------------------------------------------------

    def committed(self, submitted: Submit, verdict: ErrorCode | bool | None, error: ErrorCode) -> Effects:
        """What was decided is committed and applied; or it is not, and ``error`` says why. ``verdict``: what
        :meth:`decide` said, None where it was not asked.
        """
        got = self._answer(submitted.decision, verdict, error)
        return [] if submitted.token is None or got is None else [Reply(submitted.token, got)]

    def _answer(
        self, decision: Decision, verdict: ErrorCode | bool | None, error: ErrorCode
    ) -> ControllerGot | None:
        match decision:
            case Register():
                return self._registered(decision, error)
            case Keep(ask):
                fenced = verdict is not False
                return HeartbeatGot(ask.broker_id, ask.broker_epoch, error, fenced, number=ask.number)
            case Relieve(ask):
                granted = verdict is True and error is ErrorCode.NONE
                if granted:
                    self._deadlines.pop(ask.broker_id, None)
                return HeartbeatGot(ask.broker_id, ask.broker_epoch, error, granted, granted, ask.number)
            case InSyncAsk(wish):
                refusal = verdict if isinstance(verdict, ErrorCode) else ErrorCode.NONE
                return InSyncGot(wish, error or refusal)
            case KeptAsk(broker_id, broker_epoch, kept):
                return KeptGot(broker_id, broker_epoch, kept, error)
            case OfflineAsk(broker_id, broker_epoch, partitions, healed, unwritable):
                refusal = verdict if isinstance(verdict, ErrorCode) else ErrorCode.NONE
                return OfflineGot(broker_id, broker_epoch, partitions, error or refusal, healed, unwritable)
        return None  # A decision of its own.

    def _registered(self, decision: Register, code: ErrorCode) -> RegisterGot:
        ask, now_ms = decision
        image = self._store.image
        broker = image.brokers.get(ask.broker_id)
        if code is ErrorCode.NONE and (broker is None or broker.incarnation != ask.incarnation):
            code = ErrorCode.STALE_BROKER_EPOCH  # Another process registered before this was committed.
        if code is ErrorCode.NONE:
            self._registered_ms[ask.broker_id] = now_ms
            self._must_know[ask.broker_id] = self._store.committed_offset
        # Who must ask again is told an epoch that is committed, too: any other one may be given to its
        # successor, and a late copy of what it asks next would know of that.
        told = code in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH)
        epoch = image.registration_epoch(ask.broker_id) if told else -1
        return RegisterGot(ask.broker_id, ask.incarnation, code, epoch)


_DECIDE: Mapping[type, Callable[[Controller, Any, ClusterImage], Decided]] = {
    Fence: Controller._fence,
    Reconsider: Controller._reconsider,
    Balance: Controller._balance,
    Register: Controller._register,
    Keep: Controller._keep,
    Relieve: Controller._relieve,
    InSyncAsk: Controller._change_in_sync,
    KeptAsk: Controller._confirm,
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
    )
