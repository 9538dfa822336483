"""How often the page asks, and what it says of a broker that does not answer."""

import time
from collections import deque

from tidelog.client.errors import UnlikelyResponse

PULSE_S = 0.25
# For so long after a broker stopped answering everything is asked often.
BURST_S = 5.0
BURST_PAUSE_S = 0.05
# The share of the time that a question may take.
SHARE = 0.05
RESPONSES = 4  # that are compared


class Pace:
    """How long to wait between questions of one kind, so that all of them take a small share of the time."""

    def __init__(self) -> None:
        self._took_s = deque([0.0] * RESPONSES, RESPONSES)

    def pause_s(self, least_s: float, took_s: float) -> float:
        """Before it is asked again, after an answer that took so long. The quickest of the last answers tells
        what one costs: a slow one may have waited, for a broker that was frozen or for an election. If that
        counted, what the page shows would be half a minute old after a freeze of 1.6 s.
        """
        self._took_s.append(took_s)
        return max(least_s, min(self._took_s) * (1 / SHARE - 1))


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
