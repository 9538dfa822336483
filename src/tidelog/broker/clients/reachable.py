"""The brokers that are listed in Metadata responses.

These are the brokers that are not fenced, and those that were fenced a moment ago. When a broker disappears
from the list, a client drops it together with all requests to it. librdkafka then takes a second longer to
move its partitions to their new leaders.
"""

from tidelog.controller.image import BrokerImage, ClusterImage
from tidelog.services import Services

SHOWN_FOR_MS = 5_000  # after a broker was fenced


class Reachable:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._unfenced: set[int] = set()
        self._fenced_ms: dict[int, int] = {}  # when each broker was fenced

    def follow(self, image: ClusterImage) -> None:
        unfenced = {node.broker_id for node in image.brokers.values() if not node.fenced}
        now_ms = self._services.uptime_ms()
        for broker_id in self._unfenced - unfenced:
            self._fenced_ms[broker_id] = now_ms
        self._unfenced = unfenced

    def brokers(self, image: ClusterImage) -> list[BrokerImage]:
        since_ms = self._services.uptime_ms() - SHOWN_FOR_MS
        return [
            node
            for node in image.brokers.values()
            if not node.fenced or self._fenced_ms.get(node.broker_id, since_ms) > since_ms
        ]
