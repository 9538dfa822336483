"""Regular expressions of clients, with RE2: the time grows with the length of the name and with the size of
the expression, whatever the expression is. Python's ``re`` may take years for 30 characters. The syntax is
that of Kafka's brokers (no backreferences, no lookaround).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import re2

from tidelog.errors import ErrorCode, TidelogError

PATTERN_LENGTH_MAX = 4096
STEPS_MAX = 1 << 20  # no limit: the memory of a compiled expression is limited
_MEMORY_MAX = 1 << 20  # bytes of one compiled expression
_COMPILED_KEPT = 256


def check(pattern: str, steps_max: int = STEPS_MAX) -> None:
    """Refuse invalid or too large regular expressions. ``steps_max``: of the compiled expression; for names
    that may be long.
    """
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise _invalid(f"it is longer than {PATTERN_LENGTH_MAX} characters")
    try:
        if _compiled(pattern).programsize > steps_max:
            raise _invalid(f"it has more than {steps_max} steps")
    except re2.error as error:
        reason = error.args[0] if error.args else "no reason given"
        raise _invalid(reason.decode() if isinstance(reason, bytes) else str(reason)) from None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match completely."""
    match = _compiled(pattern).fullmatch
    return [name for name in names if match(name)]


def matches(pattern: str, name: str) -> bool:
    """Whether the name matches completely."""
    return _compiled(pattern).fullmatch(name) is not None


def groups_of(pattern: str, text: str) -> tuple[str | None, ...] | None:
    """What its groups match, if the text matches completely."""
    found = _compiled(pattern, True).fullmatch(text)
    return None if found is None else found.groups()


class Matches:
    """Names that were matched before they are needed: a name takes some milliseconds with the worst
    expressions, and there may be thousands of names.
    """

    __slots__ = ("_found", "_sees", "rules")

    def __init__(self, sees: Callable[[str], bool] | None = None, rules: object = None) -> None:
        """``sees``: whether the client may know of a name; None if it may know of all. ``rules``: what this
        depends on; another object after each change of it.
        """
        self._found: dict[tuple[str, str], bool] = {}
        self._sees = sees
        self.rules = rules

    def find(self, pattern: str, name: str) -> None:
        seen = self._sees is None or self._sees(name)
        self._found[pattern, name] = seen and matches(pattern, name)

    def matching(self, pattern: str, names: Iterable[str]) -> list[str]:
        """The names that match completely. Those that were not matched before are matched now."""
        found = self._found
        late = set(matching(pattern, [name for name in names if (pattern, name) not in found]))
        if self._sees is not None:
            late = set(filter(self._sees, late))
        return [name for name in names if name in late or found.get((pattern, name), False)]


@lru_cache(_COMPILED_KEPT)
def _compiled(pattern: str, captures: bool = False) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.log_errors = False
    options.never_capture = not captures
    return re2.compile(pattern, options)


def _invalid(reason: str) -> TidelogError:
    return TidelogError(f"the regular expression is refused: {reason}", ErrorCode.INVALID_REGULAR_EXPRESSION)
