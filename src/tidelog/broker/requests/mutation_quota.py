"""The quota for changes of topics: one for each partition that is created or deleted, as in Kafka (KIP-599).

Clients of newer versions of these requests understand a refusal and try again after the throttle time. For
older ones the change is made, and they have to wait afterwards.
"""

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError


class MutationQuota:
    """Of one request."""

    __slots__ = ("_is_strict", "_quota", "_services", "throttle_ms")

    def __init__(self, broker: Broker, context: RequestContext, strict_from: int) -> None:
        """``strict_from``: the version of the request from which on changes are refused."""
        self._services = broker.services
        self._is_strict = context.version >= strict_from
        self.throttle_ms = 0  # for the response
        self._quota = None
        if broker.quotas.limits_clients:
            use = broker.quotas.use_of(context.principal.name, context.client_id or "", self._now_ms())
            self._quota = use.mutations

    def _now_ms(self) -> int:
        return self._services.uptime_ms()

    def use(self, changes: int) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._quota is None:
            return
        limit, bucket = self._quota
        now_ms = self._now_ms()
        wait_ms = bucket.wait_ms(limit, now_ms)
        if wait_ms and self._is_strict:
            self.throttle_ms = wait_ms
            raise TidelogError("The throttling quota has been exceeded.", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        bucket.use(changes, limit, now_ms)
        self.throttle_ms = bucket.wait_ms(limit, now_ms)
