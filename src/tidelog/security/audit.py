"""The audit log: refused operations, and changes of the cluster, each with its principal.

What it owns is the form of the lines, and how many there are. A client that is refused a thousand times a
second must not fill the disk: the same refusal is told once a minute, and a minute has a limited number of
lines about refusals. Every change has a line, but one without any right to it is a refusal, too. Texts of
clients are cut. It does not know where lines go.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.security.acls import Operation, ResourceType
from tidelog.security.principal import Principal

Line = Mapping[str, Any]

WINDOW_MS = 60_000
REFUSALS_MAX = 1000  # per window
TEXT_MAX = 300
ITEMS_MAX = 100  # names in one line


class Audit:
    def __init__(self, write: Callable[[Line], None], now_ms: Callable[[], int]) -> None:
        self._write = write
        self._now_ms = now_ms
        self._window_ends_ms = 0
        self._told: set[tuple[object, ...]] = set()
        self._untold = 0

    def refused(
        self,
        principal: Principal,
        host: str,
        api: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
        client_id: str | None = None,
    ) -> None:
        now_ms = self._now_ms()
        name = name[:TEXT_MAX]
        if not self._has_room(now_ms, (principal, host, operation, kind, name)):
            return
        self._write(
            {
                "time_ms": now_ms,
                "event": "refused",
                **_who(principal, host, client_id),
                "api": api,
                "operation": operation.name,
                "resource_type": kind.name,
                "resource": name,
            }
        )

    def _has_room(self, now_ms: int, refusal: tuple[object, ...]) -> bool:
        if now_ms >= self._window_ends_ms:
            self._begin_window(now_ms)
        if refusal in self._told or len(self._told) >= REFUSALS_MAX:
            self._untold += 1
            return False
        self._told.add(refusal)
        return True

    def _begin_window(self, now_ms: int) -> None:
        self._window_ends_ms = now_ms + WINDOW_MS
        self._told.clear()
        if self._untold:
            self._write({"time_ms": now_ms, "event": "more-refused", "count": self._untold})
            self._untold = 0

    def changed(
        self,
        principal: Principal,
        host: str,
        api: str,
        items: Sequence[str],
        errors: Sequence[str],
        client_id: str | None = None,
        *,
        refused: bool = False,
    ) -> None:
        """``items``: what the request wanted to change. ``errors``: names of the errors in the response.
        ``refused``: the client has no right to any of it.
        """
        now_ms = self._now_ms()
        if refused and not self._has_room(now_ms, (principal, host, api)):
            return
        line: dict[str, Any] = {
            "time_ms": now_ms,
            "event": "change",
            **_who(principal, host, client_id),
            "api": api,
            "items": [item[:TEXT_MAX] for item in items[:ITEMS_MAX]],
        }
        if len(items) > ITEMS_MAX:
            line["more_items"] = len(items) - ITEMS_MAX
        if errors:
            line["errors"] = list(errors[:ITEMS_MAX])
        self._write(line)


def _who(principal: Principal, host: str, client_id: str | None) -> Line:
    return {
        "principal": str(principal)[:TEXT_MAX],
        "host": host,
        "client_id": None if client_id is None else client_id[:TEXT_MAX],
    }
