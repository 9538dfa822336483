"""Checks that stay on. ``assert`` disappears under ``-O``; checks that guard acknowledged data must not."""

from tidelog.errors import InvariantViolation


def invariant(holds: bool, story: str, *details: object) -> None:
    """Stop at once if an invariant does not hold: continuing would spread the damage.

    ``details`` are joined only on failure, so a check on a hot path costs one branch.
    """
    if not holds:
        raise InvariantViolation(" ".join([story, *map(repr, details)]))
