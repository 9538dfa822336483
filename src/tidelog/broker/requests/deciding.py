"""Many changes of one request in few decisions: one batch in the metadata log for every fifty changes, but a
separate result for each change. Large requests are decided in slices, so they are not atomic; nor are they in
Kafka.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.submission import Decide
from tidelog.broker.slices import in_slices
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import TidelogError
from tidelog.protocol.messages import Fields
from tidelog.services import ignore

DECIDED_TOGETHER = 50  # about 4 ms, in a topic of 10,000 partitions


def submit_together(
    broker: Broker,
    decisions: Sequence[Decide],
    respond: Callable[[TidelogError | None, list[TidelogError | None]], Fields],
) -> Future[Fields]:
    """Decide each change after those before it. ``respond`` gets the error that applies to all of them, if
    any, and the error of each.
    """
    future: Future[Fields] = Future()
    refusals: list[TidelogError | None] = [None] * len(decisions)
    failures: list[TidelogError] = []
    starts = range(0, max(len(decisions), 1), DECIDED_TOGETHER)
    gather = Gather(len(starts))
    gather.future.then(lambda _: future.complete(respond(failures[0] if failures else None, refusals)))

    def decide(start: int, image: ClusterImage) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for place, decide_one in enumerate(decisions[start : start + DECIDED_TOGETHER], start):
            try:
                decided = decide_one(image)
            except TidelogError as refusal:
                refusals[place] = refusal
                continue
            records += decided
            image = image.apply(decided)
        return records

    def done(failure: TidelogError | None) -> None:
        if failure is not None:
            failures.append(failure)
        gather.one_done()

    def decide_each() -> Iterator[None]:
        for start in starts:
            broker.store.submit(partial(decide, start), done)
            yield

    in_slices(broker.services, decide_each(), 1, ignore, future=future)
    return future
