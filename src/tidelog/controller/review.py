"""Who leads what, looked at partition by partition when brokers have come or gone, a few hundred at a time.

Each slice is a decision of its own, on the newest image: a partition is changed as a whole or not at all, and
those that have had no turn yet stay as they are. A fenced broker is not let in while this goes on, because
what ends its leaderships may not be written yet.
"""

from collections import deque
from uuid import UUID

from tidelog.controller.availability import BrokerAvailability, Rank
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import assign_topic_leaders
from tidelog.controller.records import MetadataRecord
from tidelog.controller.successions.steps import RulesOf

REVIEWED_AT_ONCE = 250  # partitions: about 4 ms, with the writing of what changes
NO_TOPIC = UUID(int=0)


class LeaderReview:
    __slots__ = ("_left", "_slices", "in_progress", "must_repeat")

    def __init__(self) -> None:
        self._left: deque[tuple[UUID, int]] = deque()  # topics, each from that partition on
        self._slices = 0  # number of the last one
        self.in_progress = False  # until the last slice is committed
        self.must_repeat = False  # A slice may not be committed.

    @property
    def has_more(self) -> bool:
        return bool(self._left)

    @property
    def is_wanted(self) -> bool:
        """Whether it has not ended, or must be repeated."""
        return self.in_progress or self.must_repeat

    def begin(self, image: ClusterImage) -> None:
        """From the beginning, also if it has begun: those that have had their turn may have to change again.
        Topics that are created later are placed on brokers as they are then. Without topics there is one
        slice, whose commit is the end.
        """
        self._left = deque((topic_id, 0) for topic_id in image.topic_names) or deque([(NO_TOPIC, 0)])
        self.in_progress = True
        self.must_repeat = False

    def next_slice(self) -> int:
        """Its number."""
        self._slices += 1
        return self._slices

    def committed(self, number: int) -> None:
        """A slice is committed. Only the last one is the end: later ones may have been taken since, and may
        not be committed.
        """
        if number == self._slices and not self.has_more and not self.must_repeat:
            self.end()

    def fail(self) -> None:
        """A slice may not be committed. To go on at once would hardly help."""
        self._left.clear()
        self.must_repeat = True

    def end(self) -> None:
        self._left.clear()
        self.in_progress = self.must_repeat = False

    def take_some(self, image: ClusterImage, rules_of: RulesOf, rank: Rank) -> list[MetadataRecord]:
        """The changes of the next slice."""
        available = BrokerAvailability.of(image, rank)
        records: list[MetadataRecord] = []
        room = REVIEWED_AT_ONCE
        while self._left and room > 0:
            topic_id, start = self._left.popleft()
            topic = image.topic_by_id(topic_id)
            if topic is None:
                continue
            end = start + room
            records += assign_topic_leaders(topic, available, rules_of(topic), start, end)
            room -= max(min(end, len(topic.partitions)) - start, 1)
            if end < len(topic.partitions):
                self._left.appendleft((topic_id, end))
        return records


def is_large(image: ClusterImage) -> bool:
    """Whether the cluster has too many partitions to look at all of them at once."""
    left = REVIEWED_AT_ONCE
    for topic in image.topics.values():
        left -= len(topic.partitions)
        if left < 0:
            return True
    return False
