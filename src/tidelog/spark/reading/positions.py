"""Where a stream stands: the next offset of each partition, and the ids of the topics they belong to.

Owns the form in checkpoints: ``{"orders": {"0": 23}, "@topicIds": {"orders": "…"}}``. Without the second
entry it is the form of Spark's own source, whose checkpoints are read as well. No topic's name can contain
an ``@``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.spark.reading.planning import Offsets

TOPIC_IDS = "@topicIds"

Wire = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Position:
    offsets: Offsets = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # of some topics: others' ids are unknown

    def others_than(self, later: "Position") -> list[str]:
        """The topics that have another id in ``later``: they were deleted and created again."""
        return [
            topic
            for topic, topic_id in self.topic_ids.items()
            if later.topic_ids.get(topic, topic_id) != topic_id
        ]

    def without(self, topics: list[str]) -> "Position":
        return Position(
            {one: offset for one, offset in self.offsets.items() if one[0] not in topics},
            {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic not in topics},
        )

    def followed_by(self, offsets: Offsets, topic_ids: Mapping[str, str]) -> "Position":
        """These offsets where there are some, and the present ones where not."""
        return Position(self.offsets | offsets, {**self.topic_ids, **topic_ids})


def to_wire(position: Position) -> Wire:
    wire: Wire = {}
    for (topic, partition), offset in sorted(position.offsets.items()):
        wire.setdefault(topic, {})[str(partition)] = offset
    ids = {topic: topic_id for topic, topic_id in sorted(position.topic_ids.items()) if topic in wire}
    return {**wire, TOPIC_IDS: ids} if ids else wire


def from_wire(wire: Mapping[str, Mapping[str, Any]] | None) -> Position:
    given = dict(wire or {})
    ids = given.pop(TOPIC_IDS, {})
    return Position(
        {
            (topic, int(partition)): int(offset)
            for topic, partitions in given.items()
            for partition, offset in partitions.items()
        },
        {topic: str(topic_id) for topic, topic_id in ids.items()},
    )
