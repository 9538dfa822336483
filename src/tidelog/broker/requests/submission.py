"""Shared by all handlers that change metadata: the changes of one request are decided separately and have a
common response.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.slices import in_slices
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


def too_many_partitions(wanted: int) -> TidelogError:
    return TidelogError(
        f"one request may create {PARTITIONS_MAX:,} partitions, not {wanted:,}; send several requests",
        ErrorCode.POLICY_VIOLATION,
    )


def submit_each(
    broker: Broker,
    decisions: Sequence[Decide],
    respond: Callable[[list[TidelogError | None]], Fields],
    *,
    validate_only: bool = False,
    drafts: Sequence[Draft] = (),
    per_slice: int = DECIDED_PER_SLICE,
) -> Future[Fields]:
    """Submit each decision, or only validate it. ``respond`` gets the error of each, or None, in order.

    ``drafts``: placements that are computed first, in slices. ``per_slice``: decisions that take about 4 ms.
    """
    future: Future[Fields] = Future()
    steps = chain.from_iterable(draft.steps() for draft in drafts)
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
    decisions: Sequence[Decide],
    respond: Callable[[list[TidelogError | None]], Fields],
    future: Future[Fields],
    per_slice: int,
    *,
    validate_only: bool,
) -> None:
    refusals: list[TidelogError | None] = [None] * len(decisions)
    gather = Gather(len(decisions))
    # The response is sent when the partitions are open, so that the client can write immediately.
    gather.future.then(lambda _: broker.partitions.when_open(lambda: future.complete(respond(refusals))))

    def decide_each() -> Iterator[None]:
        for place, decide in enumerate(decisions):
            if validate_only:
                refusals[place] = _try(broker, decide)
                gather.one_done()
            else:
                broker.store.submit(decide, _result_setter(refusals, place, gather))
            yield

    in_slices(broker.services, decide_each(), per_slice, lambda: None, future=future)


def _try(broker: Broker, decide: Decide) -> TidelogError | None:
    try:
        decide(broker.image)
    except TidelogError as refusal:
        return refusal
    return None


def _result_setter(
    refusals: list[TidelogError | None], place: int, gather: Gather
) -> Callable[[TidelogError | None], None]:
    def done(refusal: TidelogError | None) -> None:
        refusals[place] = refusal
        gather.one_done()

    return done


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
