"""The producer ids this broker gives out: from a block that is reserved in the metadata log before use.

What is left of a block when the broker stops is lost, so that no restart can give an id out twice.
"""

from collections import deque
from collections.abc import Sequence

from tidelog.broker.promise import Promise
from tidelog.controller import producer_ids
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import MetadataStore
from tidelog.errors import TidelogError

Grant = int | TidelogError
"""A producer id, or why there is none now."""


class ProducerIds:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._block = range(0)
        self._waiting: deque[Promise[Grant]] = deque()
        self._reserving = False

    def next(self) -> Promise[Grant]:
        promise: Promise[Grant] = Promise()
        self._waiting.append(promise)
        self._serve()
        return promise

    def _serve(self) -> None:
        while self._waiting and self._block:
            first, self._block = self._block[0], self._block[1:]
            self._waiting.popleft().keep(first)
        if self._waiting and not self._reserving:
            self._reserve()

    def _reserve(self) -> None:
        self._reserving = True
        reserved = range(0)

        def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
            nonlocal reserved
            record = producer_ids.reserve(image)
            reserved = range(image.next_producer_id, record.next_id)
            return [record]

        def done(refusal: TidelogError | None) -> None:
            self._reserving = False
            if refusal is None:
                self._block = reserved
                self._serve()
            else:
                self._refuse_all(refusal)

        self._store.submit(decide, done)

    def _refuse_all(self, refusal: TidelogError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for promise in waiting:
            promise.keep(refusal)
