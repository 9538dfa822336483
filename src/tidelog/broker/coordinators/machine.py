"""Runs the pure state machine of one partition of an internal topic and performs its effects.

Responses complete the futures of pending requests, records are appended to the log, and one alarm is set to
the next deadline. Effects of groups only or of transactions only are performed by
:mod:`~tidelog.broker.coordinators.group_machine` and :mod:`~tidelog.broker.coordinators.transaction_machine`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tidelog.broker.coordinators.alarm import Alarm
from tidelog.broker.coordinators.shard import Shard
from tidelog.broker.future import Future
from tidelog.errors import ErrorCode, TidelogError
from tidelog.shard_effects import NO_PRODUCER_ID, AppendRecords, Now, Respond, Token

E = TypeVar("E")
T = TypeVar("T")


class Decider(Protocol):
    """The pure part: requests and time in, effects out."""

    @property
    def next_ms(self) -> int | None:
        """When :meth:`pass_to` must be called next; None if there is no deadline."""

    def pass_to(self, now: Now) -> Sequence[Any]: ...

    def start(self, now: Now) -> Sequence[Any]: ...

    def appended(self, token: Token, error: ErrorCode, now: Now) -> Sequence[Any]:
        """The records of an effect are committed (NONE), or were refused."""

    def stop(self) -> Sequence[Any]: ...


class CoordinatorMachine(Generic[E]):
    """``E``: the effects besides responses and writes."""

    def __init__(self, shard: Shard[Any], decider: Decider) -> None:
        self._shard = shard
        self._decider = decider
        self._services = shard.services
        self._alarm = Alarm(shard.services, self._time_passed)
        self._stopped = False

    # -- requests ----------------------------------------------------------------------

    def now(self) -> Now:
        return Now(self._services.uptime_ms(), self._services.now_ms())

    def ask(
        self, request: Callable[[Future[Any], Now], Iterable[Respond | AppendRecords | E]]
    ) -> Future[Any]:
        """Make a request whose response may come later. The future gets the response, or the TidelogError
        of a refusal.
        """
        response: Future[Any] = Future()
        try:
            effects = request(response, self.now())
        except TidelogError as refusal:
            response.complete(refusal)
            return response
        self._perform(effects)
        return response

    def tell(self, request: Callable[[Now], tuple[T, Iterable[Respond | AppendRecords | E]]]) -> T:
        """Make a request whose response is available immediately. Raises TidelogError if it is refused."""
        response, effects = request(self.now())
        self._perform(effects)
        return response

    @property
    def leads_for_certain(self) -> bool:
        return self._shard.partition.leads_for_certain

    def when_certain(self, then: Callable[[bool], None]) -> None:
        """Call ``then`` with whether this broker was still the coordinator when this was called."""
        self._shard.when_certain(then)

    # -- effects -----------------------------------------------------------------------

    def _perform(self, effects: Iterable[Respond | AppendRecords | E], *, written: bool = False) -> None:
        """``written``: the effects are the result of a write that was committed or refused."""
        for effect in effects:
            if isinstance(effect, Respond):
                if written:
                    effect.waiter.complete(effect.response)
                else:
                    self._shard.respond(effect.waiter, effect.response)
            elif isinstance(effect, AppendRecords):
                self._write(effect)
            else:
                self._carry_out(effect)
        if not self._stopped:
            self._alarm.set(self._decider.next_ms)

    def _carry_out(self, effect: E) -> None:
        """Perform an effect that only this kind of machine has."""
        raise NotImplementedError

    def _write(self, write: AppendRecords) -> None:
        records, token, producer_id, producer_epoch = write

        def done(error: ErrorCode) -> None:
            self._perform(self._decider.appended(token, error, self.now()), written=True)

        self._shard.append(
            records,
            done,
            producer_id=producer_id,
            epoch=producer_epoch,
            transactional=producer_id != NO_PRODUCER_ID,
        )

    def _time_passed(self) -> None:
        self._perform(self._decider.pass_to(self.now()))

    # -- called by the shard -----------------------------------------------------------

    def start(self) -> None:
        self._perform(self._decider.start(self.now()))

    def stop(self) -> None:
        self._stopped = True
        self._alarm.cancel()
        self._perform(self._decider.stop())
