"""Sets of partitions by topic id: the operations for assignment and reconciliation.

No mapping contains an empty set, so that equal sets of partitions are equal dicts.
"""

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions of a target assignment or of a request."""

Held = Mapping[UUID, Mapping[int, int]]
"""Partitions that a member has, each with the epoch in which the member got it."""

NONE: Partitions = {}
HELD_NONE: Held = {}


def partitions_of(pairs: Iterable[tuple[UUID, Iterable[int]]]) -> Partitions:
    """From the (topic id, partitions) of requests and records, in which a topic may be listed twice."""
    result: dict[UUID, frozenset[int]] = {}
    for topic_id, indexes in pairs:
        together = result.get(topic_id, frozenset()).union(indexes)
        if together:
            result[topic_id] = together
    return result


def held_since(partitions: Partitions, epoch: int) -> Held:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()}


def keep(held: Held, wanted: Callable[[UUID, int], bool]) -> Held:
    """Held and wanted partitions."""
    result = {}
    for topic_id, epochs in held.items():
        kept = {index: epoch for index, epoch in epochs.items() if wanted(topic_id, index)}
        if kept:
            result[topic_id] = kept
    return result


def merged(left: Held, right: Held) -> Held:
    """The union; a partition in both is taken from ``right``."""
    result = dict(left)
    for topic_id, epochs in right.items():
        result[topic_id] = {**result.get(topic_id, {}), **epochs}
    return result


def is_in(partitions: Partitions | Held, topic_id: UUID, index: int) -> bool:
    return index in partitions.get(topic_id, ())


def overlap(left: Partitions, right: Partitions | Held) -> bool:
    return any(index in right.get(topic_id, ()) for topic_id, indexes in left.items() for index in indexes)


def within(inner: Partitions, outer: Partitions | Held) -> bool:
    return all(index in outer.get(topic_id, ()) for topic_id, indexes in inner.items() for index in indexes)


def count(partitions: Partitions | Held) -> int:
    return sum(map(len, partitions.values()))
