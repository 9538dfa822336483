"""Shared by all handlers that change metadata: the changes of one request are decided separately and have a
common response.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome
from tidelog.broker.slices import describe_in_slices, in_slices
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.topics import Draft
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

Decide = Callable[[ClusterImage], Sequence[MetadataRecord]]

PARTITIONS_MAX = 10_000
"""The limit of new partitions per request, as in Kafka."""
PLACED_PER_SLICE = 300  # about 3 ms
DECIDED_PER_SLICE = 20  # about 4 ms, for new topics
ROWS_PER_SLICE = 1000
_NO_STEPS: Iterator[object] = iter(())


def too_many_partitions(wanted: int) -> TidelogError:
    return TidelogError(
        f"one request may create {PARTITIONS_MAX:,} partitions, not {wanted:,}; send several requests",
        ErrorCode.POLICY_VIOLATION,
    )


def submit_each(
    broker: Broker,
    decisions: Iterable[Decide],
    respond: Callable[[list[TidelogError | None]], Outcome],
    *,
    validate_only: bool = False,
    drafts: Sequence[Draft] = (),
    before: Iterator[object] = _NO_STEPS,
    per_slice: int = DECIDED_PER_SLICE,
) -> Future[Fields]:
    """Submit each decision, or only validate it. ``respond`` gets the error of each, or None, in order.

    All of it is done in slices, because a request may have 100,000 elements: ``decisions`` are taken as they
    are submitted, ``before`` are steps that come before the first of them, and ``drafts`` are placements that
    are computed before. ``per_slice``: decisions that take about 4 ms. See :func:`rows_in_slices` for the
    response.
    """
    future: Future[Fields] = Future()
    steps = chain(before, chain.from_iterable(draft.steps() for draft in drafts))
    in_slices(
        broker.services,
        steps,
        PLACED_PER_SLICE,
        lambda: _submit_each(broker, decisions, respond, future, per_slice, validate_only=validate_only),
        future=future,
    )
    return future


def _submit_each(
    broker: Broker,
    decisions: Iterable[Decide],
    respond: Callable[[list[TidelogError | None]], Outcome],
    future: Future[Fields],
    per_slice: int,
    *,
    validate_only: bool,
) -> None:
    refusals: list[TidelogError | None] = []
    pending = 1  # that not all decisions are submitted

    def one_done() -> None:
        nonlocal pending
        pending -= 1
        if not pending:
            # The response is sent when the partitions are open, so that the client can write immediately.
            broker.partitions.when_open(finish)

    def finish() -> None:
        outcome = respond(refusals)
        if isinstance(outcome, Future):
            outcome.then(future.complete)
        else:
            future.complete(outcome)

    def submit(decide: Decide, place: int) -> None:
        def done(refusal: TidelogError | None) -> None:
            refusals[place] = refusal
            one_done()

        broker.store.submit(decide, done)

    def decide_each() -> Iterator[None]:
        nonlocal pending
        for place, decide in enumerate(decisions):
            refusals.append(None)
            if validate_only:
                refusals[place] = _try(broker, decide)
            else:
                pending += 1
                submit(decide, place)
            yield

    in_slices(broker.services, decide_each(), per_slice, one_done, future=future)


def rows_in_slices(
    broker: Broker, rows: Iterable[Fields], respond: Callable[[list[Fields]], Fields]
) -> Outcome:
    """A response with these rows, which are made as they are taken."""
    return describe_in_slices(broker.services, rows, lambda row: row, ROWS_PER_SLICE, respond)


def _try(broker: Broker, decide: Decide) -> TidelogError | None:
    try:
        decide(broker.image)
    except TidelogError as refusal:
        return refusal
    return None


def draft_if_large(partitions: int, draft: Callable[[], Draft], drafts: list[Draft]) -> Draft | None:
    """Start a draft to place many partitions. None if it is refused; the decision then raises the error."""
    if partitions <= PLACED_PER_SLICE:
        return None
    try:
        drafts.append(draft())
    except TidelogError:
        return None
    return drafts[-1]


def refuse(code: TidelogError) -> Decide:
    """A decision that is refused without looking at the cluster."""

    def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
        raise code

    return decide
