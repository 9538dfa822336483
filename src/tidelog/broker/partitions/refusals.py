"""Log lines about refused produce requests: at most one per minute, partition and error."""

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
        now_ms = self._services.now_ms()
        key = (name, refusal.code)
        if now_ms - self._logged_ms.get(key, -INTERVAL_MS) >= INTERVAL_MS:
            if len(self._logged_ms) > REMEMBERED_MAX:
                self._logged_ms.clear()
            self._logged_ms[key] = now_ms
            logger.warning("refused records of %s for %s: %s", peer, name, refusal.message)
