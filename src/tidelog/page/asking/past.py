"""The controllers' decisions, from a broker's HTTP port."""

from typing import Any

from tidelog.page.asking.process import get_json

PATH = "/past"
RESPONSE_BYTES_MAX = 32 << 20


def read(host: str, port: int, begin: int, timeout_s: float) -> dict[str, Any]:
    """``begin``: an offset of the metadata log; -1: the newest decisions. Raises ConnectionError, also if the
    broker does not tell its past.
    """
    found = get_json(
        host, port, f"{PATH}?from={begin}" if begin >= 0 else PATH, timeout_s, RESPONSE_BYTES_MAX
    )
    if not isinstance(found.get("decisions"), list) or not isinstance(found.get("next"), int):
        raise ConnectionError(f"{host}:{port}{PATH} is not what a broker says")
    return found
