"""The membership of this broker in the cluster: registration, heartbeats and session.

If a broker gets no response from a controller for the length of a session, it has been fenced or will be, and
other brokers may lead its partitions. It then refuses requests that only a leader may serve, even if it does
not know of a new leader. A broker that cannot follow the metadata any more gives its session up.
"""

import logging
from collections.abc import Callable
from uuid import UUID

from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    HeartbeatAsk,
    HeartbeatGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.errors import ErrorCode
from tidelog.services import Services, Timer, ignore

logger = logging.getLogger(__name__)

HEARTBEAT_MS = 400
RETRY_MS = 150
CLOCKS_DIFFER = 8  # A broker relies on its session for less than the controllers do, by this fraction of it.
TURNED_AWAY_MS = 3000  # A refusal that lasts this long after a predecessor's session is permanent.


def relied_on_ms(session_ms: int) -> int:
    """For how long a broker relies on what lasts for a session: its clock may be slower than that of a
    controller. It is enough where one is 5 % too slow and the other 5 % too fast.
    """
    return session_ms - session_ms // CLOCKS_DIFFER


class BrokerLifecycle:
    def __init__(
        self,
        registration: RegisterAsk,
        services: Services,
        ask: Callable[[ControllerAsk], None],
        metadata_offset: Callable[[], int],
        session_ms: int,
        heartbeat_ms: int = HEARTBEAT_MS,
        on_turned_away: Callable[[str], None] = ignore,
    ) -> None:
        """``on_turned_away`` is called with the reason when the registration is refused permanently."""
        self._registration = registration
        self._services = services
        self._ask = ask
        self._metadata_offset = metadata_offset
        self._session_ms = session_ms
        self._relied_on_ms = relied_on_ms(session_ms)
        self._heartbeat_ms = heartbeat_ms
        self.broker_epoch = -1  # -1 until registered
        self._known_epoch = 0  # epoch of the latest known registration, of this process or another
        self.fenced = True
        self._heard_ms = (
            services.uptime_ms() - session_ms
        )  # when the last heartbeat that got a response was sent
        self._number = 0  # of the last heartbeat
        self._sent_ms: dict[int, int] = {}  # when each heartbeat after that one was sent
        self._lost_at = 0  # number of the last heartbeat when a controller's connections last closed
        self._answered = 0  # number of the newest heartbeat that got a response which extends the session
        self._timer: Timer | None = None
        self._stopped = False
        self._gave_up_ms: int | None = None  # when it gave up its session, until it is restarted
        self._left: Callable[[], None] | None = None  # called when this broker may stop
        self._refused_ms: int | None = None  # since when the registration is refused
        self._on_turned_away = on_turned_away

    @property
    def incarnation(self) -> UUID:
        return self._registration.incarnation

    def start(self) -> None:
        self._beat()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def give_up(self) -> None:
        """This broker does not learn of decisions any more. Without heartbeats the controllers fence it, and
        appoint it to nothing that it would not hear of.
        """
        if self._gave_up_ms is None:
            self._gave_up_ms = min(self._services.uptime_ms(), self.session_end_ms)
        self.stop()

    def leave(self, left: Callable[[], None]) -> None:
        """Ask the controllers to move all leaderships of this broker; ``left`` is called afterwards."""
        self._left = left
        self._beat_now()

    def alone(self) -> bool:
        """Whether the controllers may have fenced this broker, or made decisions that it does not hear of."""
        if self._gave_up_ms is not None:
            return self._services.uptime_ms() >= self._gave_up_ms
        # Not through session_end_ms: this is asked for every produced batch.
        return self._services.uptime_ms() >= self._heard_ms + self._relied_on_ms

    @property
    def session_end_ms(self) -> int:
        """Until then the controllers do not fence this broker for its silence, and it hears of their
        decisions.
        """
        return self._gave_up_ms if self._gave_up_ms is not None else self._heard_ms + self._relied_on_ms

    def controller_lost(self) -> None:
        """The connections of a controller have closed. It may have fenced this broker for that."""
        self._lost_at = self._number

    @property
    def is_certain(self) -> bool:
        """Whether no controller has fenced this broker, as far as it can know. A controller may do so before
        the session is over, if connections close; a heartbeat that is answered after that shows that none
        has.
        """
        return not self.alone() and self._answered > self._lost_at

    def _beat(self) -> None:
        if self._stopped:
            return
        try:
            self._ask(self._register() if self.broker_epoch < 0 else self._heartbeat())
        finally:
            # Even if this heartbeat fails, the next one must follow.
            urgent = self.broker_epoch < 0 or self.fenced or self._left is not None
            pause_ms = RETRY_MS if urgent else self._heartbeat_ms
            late = self._services.perturb("late heartbeat")
            self._timer = self._services.later(4 * pause_ms if late else pause_ms, self._beat)

    def _register(self) -> RegisterAsk:
        """The registration with the latest known epoch. Late copies of it must not count after another
        process has registered.
        """
        return self._registration._replace(known_epoch=self._known_epoch)

    def _heartbeat(self) -> HeartbeatAsk:
        now_ms = self._services.uptime_ms()
        self._number += 1
        self._sent_ms = {
            number: sent_ms
            for number, sent_ms in self._sent_ms.items()
            if sent_ms > now_ms - self._session_ms  # A response to an older one extends nothing.
        } | {self._number: now_ms}
        return HeartbeatAsk(
            self._registration.broker_id,
            self.broker_epoch,
            self._metadata_offset(),
            leaving=self._left is not None,
            number=self._number,
        )

    def hurry(self) -> None:
        """There is a controller or new metadata: an unregistered or fenced broker retries now."""
        if not self._stopped and self._timer is not None and (self.broker_epoch < 0 or self.fenced):
            self._beat_now()

    def show_life(self) -> None:
        """Send a heartbeat now, because the controllers may be checking which brokers are running."""
        if not self._stopped and self._timer is not None:
            self._beat_now()

    def metadata_says(self, broker_epoch: int, *, fenced: bool) -> None:
        """The state of this broker in the metadata log."""
        self._known_epoch = max(self._known_epoch, broker_epoch)
        if broker_epoch == self.broker_epoch and not fenced:
            self.fenced = False

    def answered(self, got: ControllerGot) -> None:
        if isinstance(got, RegisterGot):
            self._registered(got)
        elif isinstance(got, HeartbeatGot) and got.broker_epoch == self.broker_epoch:
            self._heartbeat_answered(got)

    def _registered(self, got: RegisterGot) -> None:
        if got.incarnation != self.incarnation or self.broker_epoch >= 0:
            return
        if got.error is ErrorCode.NONE:
            self.broker_epoch = got.broker_epoch
            self._refused_ms = None
            # A loss is reported once. Reported again with a later registration, it would remove this broker
            # from in-sync sets that it has joined since.
            self._registration = self._registration._replace(forgot=False)
            logger.info("registered as broker %s, epoch %s", got.broker_id, got.broker_epoch)
            self._beat_now()
        elif got.error is ErrorCode.STALE_BROKER_EPOCH:
            # Another process of this broker was registered that this one did not know of. Register again
            # with its epoch.
            if got.broker_epoch > self._known_epoch:
                self._known_epoch = got.broker_epoch
                self._beat_now()
        elif got.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self.refused(f"another broker {got.broker_id} is registered and alive")
        elif got.error is not ErrorCode.NOT_CONTROLLER:
            logger.warning("broker %s cannot register yet: %s", got.broker_id, got.error.name)

    def refused(self, reason: str) -> None:
        """Another node of the cluster refuses this broker."""
        now_ms = self._services.uptime_ms()
        if self._refused_ms is None:
            self._refused_ms = now_ms
            logger.warning(
                "the registration of broker %s is refused: %s", self._registration.broker_id, reason
            )
        elif self.alone() and now_ms - self._refused_ms >= self._session_ms + TURNED_AWAY_MS:
            self._on_turned_away(reason)

    def _heartbeat_answered(self, got: HeartbeatGot) -> None:
        if got.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.broker_epoch = -1  # A later incarnation has registered, or the broker was unregistered.
            self.fenced = True
        elif got.error is ErrorCode.NONE and got.number in self._sent_ms:
            # The session counts from the time this heartbeat was sent: the controller's session began no
            # earlier, and a late response says nothing about heartbeats sent since. A fenced broker has no
            # session, and may not know the new leaders because its metadata is old.
            if not got.fenced:
                self._heard_ms = self._sent_ms[got.number]
                self._answered = max(self._answered, got.number)
            for number in [number for number in self._sent_ms if number <= got.number]:
                del self._sent_ms[number]
            self.fenced = got.fenced
            if got.may_stop and self._left is not None:
                left, self._left = self._left, None
                self.stop()
                left()

    def _beat_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._beat()
