"""Many changes of one request as one decision: one batch in the metadata log instead of a thousand, but a
separate result for each change.
"""

from collections.abc import Callable, Sequence

from tidelog.broker.broker import Broker
from tidelog.broker.promise import Promise
from tidelog.broker.requests.submission import Decide
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import TidelogError
from tidelog.protocol.messages import Fields


def submit_together(
    broker: Broker,
    wishes: Sequence[Decide],
    answer: Callable[[TidelogError | None, list[TidelogError | None]], Fields],
) -> Promise[Fields]:
    """Decide each change after those before it. ``answer`` gets the error that applies to all of them, if
    any, and the error of each.
    """
    promise: Promise[Fields] = Promise()
    refusals: list[TidelogError | None] = [None] * len(wishes)

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for place, wish in enumerate(wishes):
            try:
                decided = wish(image)
            except TidelogError as refusal:
                refusals[place] = refusal
                continue
            records += decided
            image = image.apply(decided)
        return records

    broker.store.submit(decide, lambda failure: promise.keep(answer(failure, refusals)))
    return promise
