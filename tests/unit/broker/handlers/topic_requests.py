"""What tests of requests about topics share."""

from typing import Any

import pytest


def versions(oldest: int, newest: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(oldest, newest + 1))


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def codes(answers: Any) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in answers]
