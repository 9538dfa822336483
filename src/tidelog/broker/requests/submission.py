"""What all handlers that change metadata share: wishes of one request are decided one by one, answered
together.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from tidelog.broker.broker import Broker
from tidelog.broker.promise import Gather, Promise
from tidelog.broker.slices import in_slices
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.topics import Draft
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

Decide = Callable[[ClusterImage], Sequence[MetadataRecord]]

PARTITIONS_MAX = 10_000
"""New partitions of one request, as in Kafka."""
PLACED_PER_SLICE = 300  # about 3 ms


def too_many_partitions(wanted: int) -> TidelogError:
    return TidelogError(
        f"one request may make {PARTITIONS_MAX:,} partitions, not {wanted:,}; send several",
        ErrorCode.POLICY_VIOLATION,
    )


def submit_each(
    broker: Broker,
    decisions: Sequence[Decide],
    answer: Callable[[list[TidelogError | None]], Fields],
    *,
    validate_only: bool = False,
    drafts: Sequence[Draft] = (),
) -> Promise[Fields]:
    """Carry out each decision, or only try it; ``answer`` gets each one's refusal, or None, in order.

    ``drafts``: placements that are worked out before, in slices.
    """
    promise: Promise[Fields] = Promise()
    steps = chain.from_iterable(draft.steps() for draft in drafts)
    in_slices(
        broker.services,
        steps,
        PLACED_PER_SLICE,
        lambda: _submit_each(broker, decisions, answer, promise, validate_only=validate_only),
    )
    return promise


def _submit_each(
    broker: Broker,
    decisions: Sequence[Decide],
    answer: Callable[[list[TidelogError | None]], Fields],
    promise: Promise[Fields],
    *,
    validate_only: bool,
) -> None:
    refusals: list[TidelogError | None] = [None] * len(decisions)
    gather = Gather(len(decisions))
    # Partitions are open when the client hears "created", so that it can write at once.
    gather.promise.then(lambda _: broker.partitions.when_open(lambda: promise.keep(answer(refusals))))
    for place, decide in enumerate(decisions):
        if validate_only:
            refusals[place] = _try(broker, decide)
            gather.one_done()
        else:
            broker.store.submit(decide, _settle(refusals, place, gather))


def _try(broker: Broker, decide: Decide) -> TidelogError | None:
    try:
        decide(broker.image)
    except TidelogError as refusal:
        return refusal
    return None


def _settle(
    refusals: list[TidelogError | None], place: int, gather: Gather
) -> Callable[[TidelogError | None], None]:
    def done(refusal: TidelogError | None) -> None:
        refusals[place] = refusal
        gather.one_done()

    return done


def draft_if_large(partitions: int, draft: Callable[[], Draft], drafts: list[Draft]) -> Draft | None:
    """Begin to place many partitions; not where they would be refused, which the decision says as well."""
    if partitions <= PLACED_PER_SLICE:
        return None
    try:
        drafts.append(draft())
    except TidelogError:
        return None
    return drafts[-1]


def refuse(code: TidelogError) -> Decide:
    """A wish that is refused before anyone looks at the cluster."""

    def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
        raise code

    return decide
