"""How much a parametrized test goes through, in the quick tier and otherwise."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

FEW = os.environ.get("TIDELOG_TEST_EXAMPLES") == "few"
T = TypeVar("T")


def tried(versions: Mapping[T, Iterable[int]]) -> Sequence[tuple[T, int]]:
    """Pairs of an API and a version: every version, and in the quick tier the oldest and the newest."""
    chosen = {api: sorted(known) for api, known in versions.items()}
    if FEW:
        chosen = {api: sorted({known[0], known[-1]}) if known else [] for api, known in chosen.items()}
    return [(api, version) for api, known in chosen.items() for version in known]
