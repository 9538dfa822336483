"""How often the page asks, and what it says of a broker that does not answer."""

import time

from tidelog.client.errors import UnlikelyResponse

PULSE_S = 0.25
# For so long after a broker stopped answering everything is asked often.
BURST_S = 5.0
BURST_PAUSE_S = 0.05
# The share of the time that a question may take.
SHARE = 0.05


def pause_s(least_s: float, took_s: float) -> float:
    """How long to wait before a question is asked again that took so long."""
    return max(least_s, took_s * (1 / SHARE - 1))


def now_ms() -> int:
    return int(time.time() * 1000)


def words_of(error: OSError, *, has_answered: bool = False) -> str:
    """Why a broker does not answer, in words without a full stop. One that has answered before has the right
    security protocol.
    """
    if isinstance(error, ConnectionRefusedError):
        return "connections to it are refused, its process has ended"
    if isinstance(error, TimeoutError):
        return "it accepts no question or gives no answer in time"
    if isinstance(error, ConnectionResetError) or (has_answered and isinstance(error, UnlikelyResponse)):
        return "it closed the connection"
    return str(error).rstrip(".")
