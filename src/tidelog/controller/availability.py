"""Which brokers are available, and which of them should lead."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.config import broker_setting
from tidelog.controller.image import ClusterImage

DRAIN_SETTING = "broker.drain"

Rank = Callable[[int], int]
"""Reasons not to choose a broker as leader: none, one or both of these flags."""

NEWCOMER = 1  # It has only just restarted: it leads only where no other broker can.
UNHEARD = 2  # It was not heard since another broker was lost: it may be lost, too.


def same_rank(broker_id: int) -> int:
    return 0


def is_drained(image: ClusterImage, broker_id: int) -> bool:
    """Whether the operator wants this broker to lead nothing."""
    text = image.broker_configs.get(str(broker_id), {}).get(DRAIN_SETTING)
    return text is not None and broker_setting(DRAIN_SETTING).parse(text) is True


class BrokerAvailability(NamedTuple):
    unfenced: frozenset[int]
    willing: frozenset[int]  # those of them that are neither shutting down nor drained
    rank: Rank = same_rank
    # Fenced, but perhaps alive and with a session: they may still act as leaders. Members of an in-sync set
    # can lead all the same: nothing is committed without them.
    in_session: frozenset[int] = frozenset()

    @classmethod
    def of(cls, image: ClusterImage, rank: Rank = same_rank) -> "BrokerAvailability":
        unfenced = frozenset(node.broker_id for node in image.brokers.values() if not node.fenced)
        unwilling = {
            broker for broker in unfenced if image.brokers[broker].leaving or is_drained(image, broker)
        }
        in_session = frozenset(node.broker_id for node in image.brokers.values() if node.session_lasts)
        return cls(unfenced, unfenced - unwilling, rank, in_session)

    def hears(self, broker_id: int) -> bool:
        return not self.rank(broker_id) & UNHEARD

    def best(self, candidates: Iterable[int]) -> int:
        """The first candidate that should lead; if none should, the first that can."""
        return min(candidates, key=lambda broker: (broker not in self.willing, self.rank(broker) & NEWCOMER))
