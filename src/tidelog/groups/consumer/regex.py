"""Regular expressions for topic names, with RE2. It takes linear time for any expression, so a client cannot
overload the broker with one. The syntax is that of Kafka's brokers (no backreferences, no lookaround).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from tidelog.errors import ErrorCode, TidelogError

PATTERN_LENGTH_MAX = 4096
_MEMORY_MAX = 1 << 20  # bytes of one compiled expression
_COMPILED_KEPT = 256


def check(pattern: str) -> None:
    """Refuse invalid or too large regular expressions."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise _invalid(f"it is longer than {PATTERN_LENGTH_MAX} characters")
    try:
        _compiled(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else "no reason given"
        raise _invalid(reason.decode() if isinstance(reason, bytes) else str(reason)) from None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match completely."""
    match = _compiled(pattern).fullmatch
    return [name for name in names if match(name)]


@lru_cache(_COMPILED_KEPT)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern, options)


def _invalid(reason: str) -> TidelogError:
    return TidelogError(
        f"the subscription's regular expression is refused: {reason}", ErrorCode.INVALID_REGULAR_EXPRESSION
    )
