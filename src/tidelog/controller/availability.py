"""Which brokers can be counted on, and which of them should lead."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.config import broker_setting
from tidelog.controller.image import ClusterImage

DRAIN_SETTING = "broker.drain"

Rank = Callable[[int], int]
"""What speaks against a broker: none, one or both of these."""

NEWCOMER = 1  # It has only just come back: it leads only where nobody else can.
UNHEARD = 2  # Nothing was heard of it since somebody was lost: it may be lost, too.


def same_rank(broker_id: int) -> int:
    return 0


def is_drained(image: ClusterImage, broker_id: int) -> bool:
    """Whether the operator wants this broker to lead nothing."""
    text = image.broker_configs.get(str(broker_id), {}).get(DRAIN_SETTING)
    return text is not None and broker_setting(DRAIN_SETTING).parse(text) is True


class BrokerAvailability(NamedTuple):
    serving: frozenset[int]  # Not fenced.
    willing: frozenset[int]  # Those of them that neither want to stop nor are drained.
    rank: Rank = same_rank

    @classmethod
    def of(cls, image: ClusterImage, rank: Rank = same_rank) -> "BrokerAvailability":
        serving = frozenset(node.broker_id for node in image.brokers.values() if not node.fenced)
        unwilling = {
            broker for broker in serving if image.brokers[broker].leaving or is_drained(image, broker)
        }
        return cls(serving, serving - unwilling, rank)

    def hears(self, broker_id: int) -> bool:
        return not self.rank(broker_id) & UNHEARD

    def best(self, candidates: Iterable[int]) -> int:
        """Of some that could lead, in their order: one that should, and only else one that should not."""
        return min(candidates, key=lambda broker: (broker not in self.willing, self.rank(broker) & NEWCOMER))
