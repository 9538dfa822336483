"""Log lines about refused produce requests: at most one per minute, partition and error, and at most 1,000 in
all. One request can be refused for thousands of partitions.
"""

import logging

from tidelog.errors import ErrorCode, TidelogError
from tidelog.services import Services
from tidelog.types import TopicPartition

logger = logging.getLogger(__name__)

INTERVAL_MS = 60_000
REMEMBERED_MAX = 1000


class Refusals:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._logged_ms: dict[tuple[TopicPartition, ErrorCode], int] = {}

    def note(self, name: TopicPartition, refusal: TidelogError, peer: str) -> None:
        now_ms = self._services.uptime_ms()
        key = (name, refusal.code)
        logged_ms = self._logged_ms
        if now_ms - logged_ms.get(key, -INTERVAL_MS) < INTERVAL_MS or not self._has_room(now_ms):
            return
        logged_ms.pop(key, None)  # The oldest come first.
        logged_ms[key] = now_ms
        logger.warning("refused records of %s for %s: %s", peer, name, refusal.message)

    def _has_room(self, now_ms: int) -> bool:
        logged_ms = self._logged_ms
        while logged_ms and now_ms - next(iter(logged_ms.values())) >= INTERVAL_MS:
            del logged_ms[next(iter(logged_ms))]
        return len(logged_ms) < REMEMBERED_MAX
