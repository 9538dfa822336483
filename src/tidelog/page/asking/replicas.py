"""Sizes and lags of the replicas on one broker, and its volume."""

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.page.asking.link import Link
from tidelog.page.facts import Replicas

DESCRIBE_LOG_DIRS = 35


def replicas(link: Link) -> Replicas:
    response = link.ask(DESCRIBE_LOG_DIRS, {"topics": None})
    codes = {getattr(response, "error_code", 0), *(each.error_code for each in response.results)}
    if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes:
        return Replicas(refused=True)
    topics: dict[str, dict[int, tuple[int, int]]] = {}
    for directory in response.results:
        for topic in directory.topics:
            of_topic = topics.setdefault(topic.name, {})
            for each in topic.partitions:
                of_topic[int(each.partition_index)] = (int(each.partition_size), int(each.offset_lag))
    return Replicas(
        _sum(response.results, "total_bytes"),
        _sum(response.results, "usable_bytes"),
        any(directory.error_code for directory in response.results),
        topics,
    )


def _sum(directories: Any, name: str) -> int:
    """-1 if the broker is too old to tell."""
    known = [getattr(each, name, -1) for each in directories]
    return sum(known) if known and min(known) >= 0 else -1
