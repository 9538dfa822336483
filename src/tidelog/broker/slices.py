"""Work of many small steps, done in slices, so that a broker can handle requests in between."""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from tidelog.broker.future import Future
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.services import Services, ignore

T = TypeVar("T")

logger = logging.getLogger(__name__)

SLICE_MS_MAX = 4


def in_slices(
    services: Services,
    steps: Iterator[object],
    per_slice: int,
    then: Callable[[], None],
    *,
    urgent: bool = False,
    future: Future[Fields] | None = None,
) -> None:
    """Do all steps, ``per_slice`` at a time, then call ``then``. The first slice is done immediately.
    ``urgent``: work of the cluster, which does not wait for the slices of clients' requests. ``future``: the
    response to the request that the steps belong to. Whatever goes wrong, it is kept.
    """
    try:
        goes_on = take_slice(services, steps, per_slice)
    except Exception as error:
        if future is None or future.is_complete:
            raise
        future.complete(_failure(error))
        return
    if goes_on:
        services.in_turn(
            lambda: in_slices(services, steps, per_slice, then, urgent=urgent, future=future), urgent=urgent
        )
    else:
        then()


def _failure(error: Exception) -> Fields:
    logger.exception("a request failed")
    return {"error_code": getattr(error, "code", ErrorCode.UNKNOWN_SERVER_ERROR)}


def take_slice(services: Services, steps: Iterator[object], per_slice: int) -> bool:
    """Whether there may be more. The step that takes the slice beyond its time is the last one."""
    until_ms = services.uptime_ms() + SLICE_MS_MAX
    count = 0
    for _ in islice(steps, per_slice):
        count += 1
        if services.uptime_ms() >= until_ms:
            return True
    return count == per_slice


class SlicedResponse(Future[Fields]):
    """A response that is worked out in slices. Until all steps are taken, its connection takes no other
    request: what comes later on it must not be seen by what came before.
    """

    __slots__ = ("_per_slice", "_respond", "_services", "_steps", "_when_taken")

    def __init__(
        self,
        services: Services,
        steps: Iterator[object],
        per_slice: int,
        respond: Callable[[], Fields | Future[Fields]],
    ) -> None:
        super().__init__()
        self._services = services
        self._steps = steps
        self._per_slice = per_slice
        self._respond = respond
        self._when_taken: Callable[[], None] = ignore

    def when_taken(self, callback: Callable[[], None]) -> None:
        """Call back when all steps are taken, or one has failed. There may be more to wait for."""
        self._when_taken = callback

    def resume(self) -> None:
        """The next slice. Whatever goes wrong, the request is answered."""
        try:
            if take_slice(self._services, self._steps, self._per_slice):
                self._services.in_turn(self.resume)
                return
            outcome = self._respond()
        except Exception as error:
            outcome = _failure(error)
        self._when_taken()
        if isinstance(outcome, Future):
            outcome.then(self.complete)
        else:
            self.complete(outcome)


class LateResponse(Future[Fields]):
    """A response that is worked out after a wait. Its connection counts the rows of all that it waits for
    and takes no other request while they are too many.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: int) -> None:
        """``rows``: how many it will have, as far as that is known before the wait."""
        super().__init__()
        self.rows = max(rows, 1)  # As long as there are any, writes to the connection wait.

    def work_out(self, services: Services, respond: Callable[[], Fields | Future[Fields]]) -> None:
        """The wait is over. Many clients may have waited for the same leaders, so each response takes its
        turn with other long work.
        """
        services.in_turn(lambda: self._work_out(respond))

    def _work_out(self, respond: Callable[[], Fields | Future[Fields]]) -> None:
        """Whatever goes wrong, the request is answered."""
        try:
            outcome = respond()
        except Exception as error:
            outcome = _failure(error)
        if isinstance(outcome, Future):
            outcome.then(self.complete)
        else:
            self.complete(outcome)


def respond_in_slices(
    services: Services,
    steps: Iterator[object],
    per_slice: int,
    respond: Callable[[], Fields | Future[Fields]],
) -> Fields | Future[Fields]:
    """``respond`` is called when all steps are taken; at once if they are few. What goes wrong in the first
    slice goes to the caller.
    """
    if not take_slice(services, steps, per_slice):
        return respond()
    response = SlicedResponse(services, steps, per_slice, respond)
    services.in_turn(response.resume)
    return response


def describe_in_slices(
    services: Services,
    items: Iterable[T],
    describe: Callable[[T], Fields],
    per_slice: int,
    respond: Callable[[list[Fields]], Fields],
) -> Fields | Future[Fields]:
    """A response with a row for each item."""
    rows: list[Fields] = []

    def describe_each() -> Iterator[None]:
        for item in items:
            rows.append(describe(item))
            yield

    return respond_in_slices(services, describe_each(), per_slice, lambda: respond(rows))
