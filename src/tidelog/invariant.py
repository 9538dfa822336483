"""Checks that stay on. ``assert`` disappears under ``-O``; what guards acknowledged data must not."""

from tidelog.errors import InvariantViolation


def invariant(holds: bool, story: str, *details: object) -> None:
    """Stop at once when a rule that must hold does not: going on would spread the damage.

    ``details`` are joined only on failure, so a check on a hot path costs one branch.
    """
    if not holds:
        raise InvariantViolation(" ".join([story, *map(repr, details)]))
