"""The active controller: registers brokers, notices their silence, and decides through the metadata log.

Only sessions (when a broker was last heard of) live here and not in the log: a new controller begins with a
full session for everybody, and so fences nobody for its predecessor's death.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.controller import elections, leadership
from tidelog.controller.elections import RulesOf
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    HeartbeatAsk,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    OfflineAsk,
    OfflineGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.records import BrokerRegistered, MetadataRecord
from tidelog.controller.store import MetadataStore
from tidelog.errors import ErrorCode, TidelogError

logger = logging.getLogger(__name__)

Answer = Callable[[ControllerGot], None]


NEWCOMER_MS = 20_000


class SessionTiming(NamedTuple):
    session_ms: int = 3000  # without a heartbeat for so long, a broker is taken for dead
    grace_ms: int = 100  # after its connection closed


class Controller:
    def __init__(self, store: MetadataStore, rules_of: RulesOf, timing: SessionTiming) -> None:
        self._store = store
        self._rules_of = rules_of
        self._timing = timing
        self._deadlines: dict[int, int] = {}  # broker → when it is taken for dead
        self._registered_ms: dict[int, int] = {}  # when brokers came (back) under this controller
        self._now_ms = 0
        self._balanced_ms = 0
        self.balance_interval_ms = 0  # 0: leaders stay where they are
        self.active = False

    def activate(self, now_ms: int) -> None:
        """This node leads the metadata log now, and everything earlier leaders decided is applied."""
        self.active = True
        self._now_ms = now_ms
        self._balanced_ms = now_ms
        self._registered_ms.clear()
        self._deadlines = {
            broker_id: now_ms + self._timing.session_ms
            for broker_id, broker in self._store.image.brokers.items()
            if not broker.fenced
        }

    def deactivate(self) -> None:
        self.active = False
        self._deadlines.clear()

    # --- silence --------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if not self.active:
            return
        for broker_id in [broker for broker, deadline in self._deadlines.items() if deadline <= now_ms]:
            # A disk that fails while the first one is fenced ends the activity, and with it all sessions.
            if self._deadlines.pop(broker_id, None) is not None:
                self._fence(broker_id)

    def keep_in_order(self, now_ms: int) -> None:
        """Leadership where it belongs: away from brokers that are drained, and now and then back to the
        preferred replicas.
        """
        if not self.active:
            return
        image = self._store.image
        if any(leadership.drain(image, self._rank)):
            self._store.submit(lambda latest: leadership.drain(latest, self._rank), lambda error: None)
        interval_ms = self.balance_interval_ms
        if interval_ms and now_ms - self._balanced_ms >= interval_ms:
            self._balanced_ms = now_ms
            if next(leadership.misplaced(image), None) is not None:
                self._store.submit(lambda latest: leadership.balance(latest, self._rank), lambda error: None)

    def broker_lost(self, broker_id: int, now_ms: int, *, dead: bool = False) -> None:
        """Its connections closed: probably its process is dead. It has a short time to show that it is not,
        unless it is known to be ``dead``.
        """
        if self.active and broker_id in self._deadlines:
            deadline = now_ms if dead else now_ms + self._timing.grace_ms
            self._deadlines[broker_id] = min(self._deadlines[broker_id], deadline)
            if dead:
                self.tick(now_ms)

    def _fence(self, broker_id: int) -> None:
        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                return []
            logger.warning("broker %s is fenced: nothing was heard of it", broker_id)
            return elections.fence(image, broker_id, self._rules_of, self._rank)

        self._store.submit(decide, lambda error: None)

    def _rank(self, broker_id: int) -> int:
        """Who has just come back leads only if nobody else can: its caches are cold, and clients that lost it
        a moment ago wait before they connect to it again.
        """
        since_ms = self._registered_ms.get(broker_id)
        newcomer = since_ms is not None and self._now_ms - since_ms <= NEWCOMER_MS
        return 2 * leadership.is_draining(self._store.image, broker_id) + newcomer

    # --- requests -------------------------------------------------------------------------------------------

    def handle(self, ask: ControllerAsk, now_ms: int, answer: Answer) -> None:
        match ask:
            case RegisterAsk():
                self._register(ask, now_ms, answer)
            case HeartbeatAsk():
                self._heartbeat(ask, now_ms, answer)
            case InSyncAsk(wish):
                if not self.active:
                    answer(InSyncGot(wish, ErrorCode.NOT_CONTROLLER))
                    return
                self._store.submit(
                    lambda image: elections.change_in_sync(image, wish, self._rules_of),
                    lambda error: answer(InSyncGot(wish, error.code if error else ErrorCode.NONE)),
                )
            case OfflineAsk(broker_id, broker_epoch, partitions):
                self._store.submit(
                    lambda image: elections.take_offline(
                        image, broker_id, broker_epoch, partitions, self._rules_of
                    ),
                    lambda error: answer(
                        OfflineGot(
                            broker_id, broker_epoch, partitions, error.code if error else ErrorCode.NONE
                        )
                    ),
                )

    def _register(self, ask: RegisterAsk, now_ms: int, answer: Answer) -> None:
        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            known = image.brokers.get(ask.broker_id)
            if known is not None and known.incarnation == ask.incarnation:
                return []  # The same process asks again: its answer was lost.
            # A data directory is locked by the process that uses it: the same one shows that the old process
            # is dead. Another one may belong to a second broker with this id.
            same = known is not None and known.directory in (None, ask.directory)
            lives = self._deadlines.get(ask.broker_id, 0) > now_ms
            if known is not None and not known.fenced and lives and not same:
                raise TidelogError(
                    f"broker {ask.broker_id} is registered and alive", ErrorCode.DUPLICATE_BROKER_REGISTRATION
                )
            epoch = 1 + max((broker.broker_epoch for broker in image.brokers.values()), default=0)
            registration = BrokerRegistered(
                ask.broker_id,
                ask.incarnation,
                ask.host,
                ask.port,
                ask.rack,
                epoch,
                fenced=True,
                directory=ask.directory,
            )
            empty = known is not None and not same
            if empty:
                logger.warning("broker %s has come back with another disk", ask.broker_id)
            return elections.register(image, registration, self._rules_of, forgot=ask.forgot, empty=empty)

        def done(error: TidelogError | None) -> None:
            broker = self._store.image.brokers.get(ask.broker_id)
            code = error.code if error else ErrorCode.NONE
            epoch = broker.broker_epoch if broker is not None and not error else -1
            if not error:
                self._registered_ms[ask.broker_id] = now_ms
            answer(RegisterGot(ask.broker_id, ask.incarnation, code, epoch))

        if not self.active:
            answer(RegisterGot(ask.broker_id, ask.incarnation, ErrorCode.NOT_CONTROLLER, -1))
            return
        self._store.submit(decide, done)

    def _heartbeat(self, ask: HeartbeatAsk, now_ms: int, answer: Answer) -> None:
        def reply(error: ErrorCode, *, fenced: bool = True, may_stop: bool = False) -> None:
            answer(HeartbeatGot(ask.broker_id, ask.broker_epoch, error, fenced, may_stop))

        if not self.active:
            reply(ErrorCode.NOT_CONTROLLER)
            return
        broker = self._store.image.brokers.get(ask.broker_id)
        if broker is None:
            reply(ErrorCode.BROKER_ID_NOT_REGISTERED)
            return
        if broker.broker_epoch != ask.broker_epoch:
            reply(ErrorCode.STALE_BROKER_EPOCH)
            return
        if ask.leaving:
            self._relieve(ask, reply)
            return
        self._deadlines[ask.broker_id] = now_ms + self._timing.session_ms
        if broker.fenced and ask.metadata_offset >= self._store.committed_offset:
            # It knows everything there is to know, so it will not act on an old picture.
            self._unfence(ask.broker_id, ask.broker_epoch)
        reply(ErrorCode.NONE, fenced=broker.fenced)

    def _unfence(self, broker_id: int, broker_epoch: int) -> None:
        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            broker = image.brokers.get(broker_id)
            if broker is None or not broker.fenced or broker.broker_epoch != broker_epoch:
                return []
            logger.info("broker %s is back", broker_id)
            return elections.unfence(image, broker_id, self._rules_of)

        self._store.submit(decide, lambda error: None)

    def _relieve(self, ask: HeartbeatAsk, reply: Callable[..., None]) -> None:
        """A broker wants to stop: others take over first, then it may go."""
        self._deadlines[ask.broker_id] = self._now_ms + self._timing.session_ms
        may_stop = False

        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            nonlocal may_stop
            broker = image.brokers.get(ask.broker_id)
            may_stop = True
            if broker is None or broker.fenced:
                return []
            moved = list(leadership.move_away(image, ask.broker_id, self._rank))
            if moved:
                may_stop = False  # First it hears itself that others lead; until then it serves.
                return moved
            return elections.fence(image, ask.broker_id, self._rules_of, self._rank)

        def done(error: TidelogError | None) -> None:
            if may_stop and not error:
                self._deadlines.pop(ask.broker_id, None)
            reply(error.code if error else ErrorCode.NONE, fenced=may_stop, may_stop=may_stop and not error)

        self._store.submit(decide, done)
