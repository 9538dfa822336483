"""Figures of a broker's process, over HTTP. They are cheap: no figure of a partition is among them."""

import http.client
import json
from typing import Any, NamedTuple

from tidelog.page.facts import Figures

PATH = "/process"
RESPONSE_BYTES_MAX = 1 << 16


class Counters(NamedTuple):
    """Counters as they stood at a time."""

    at_s: float
    cpu_seconds: float
    requests: int


def read(host: str, port: int, timeout_s: float) -> dict[str, float]:
    found = get_json(host, port, PATH, timeout_s, RESPONSE_BYTES_MAX)
    try:
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, TypeError) as error:
        raise ConnectionError(f"{host}:{port}{PATH} is not what a broker says: {error}") from None


def get_json(host: str, port: int, path: str, timeout_s: float, bytes_max: int) -> dict[str, Any]:
    """An object. Raises OSError."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != 200:
            raise ConnectionError(f"{host}:{port}{path} answers with {response.status}")
        found = json.loads(response.read(bytes_max))
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found
    except (http.client.HTTPException, ValueError, RecursionError) as error:
        raise ConnectionError(f"{host}:{port}{path} is not what a broker says: {error}") from None
    finally:
        connection.close()


def figures(found: dict[str, float], before: Counters | None, now_s: float) -> tuple[Figures, Counters]:
    """Rates need two readings."""
    after = Counters(now_s, found.get("cpu_seconds", 0.0), int(found.get("requests", 0)))
    cpu = requests_s = -1.0
    if before is not None and now_s > before.at_s:
        passed_s = now_s - before.at_s
        cpu = max(after.cpu_seconds - before.cpu_seconds, 0.0) / passed_s
        requests_s = max(after.requests - before.requests, 0) / passed_s
    return (
        Figures(
            cpu,
            found.get("loop_lag_seconds", -0.001) * 1000,
            int(found.get("memory_bytes", -1)),
            requests_s,
            int(found.get("connections", -1)),
        ),
        after,
    )
