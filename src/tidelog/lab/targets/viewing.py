"""What several brokers report about a cluster, as one view.

A broker that is cut off still reports what it last knew. So all are asked, and of each partition the report
with the highest leader epoch counts. They are asked at the same time: one that is frozen, or a machine that
is busy, must not hold up what the others say.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar
from uuid import UUID

from tidelog.client.cluster_view import (
    ClusterView,
    PartitionView,
    active_controller,
    view_cluster,
    voter_directories,
)

T = TypeVar("T")

TIMEOUT_S = 1.5  # of one request
PATIENCE_S = 0.15  # with further brokers, once one has answered
THREADS = 9  # as many as brokers at most

Addresses = Mapping[int, tuple[str, int]]


class Viewer:
    def __init__(self, addresses: Callable[[], Addresses]) -> None:
        self._addresses = addresses
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="viewer")
        self._silent: dict[int, Future[Any]] = {}  # requests that still wait: not asked again meanwhile

    def view(self, *topics: str) -> ClusterView:
        """OSError if no broker answers."""
        views = self._ask(lambda host, port: view_cluster(host, port, *topics, timeout_s=TIMEOUT_S))
        if not views:
            raise ConnectionError("no broker answers")
        merged: dict[str, list[PartitionView]] = {}
        for view in views.values():
            for topic, partitions in view.topics.items():
                merged[topic] = _newest(merged.get(topic, []), partitions)
        fullest = max(views.values(), key=lambda view: (view.controller >= 0, len(view.brokers)))
        return ClusterView(fullest.brokers, fullest.controller, merged)

    def answering(self) -> frozenset[int]:
        """The brokers that answer now."""
        return frozenset(self._ask(lambda host, port: view_cluster(host, port, timeout_s=TIMEOUT_S)))

    def controller(self) -> int:
        """What most brokers say; -1: none says anything."""
        said = [
            number
            for number in self._ask(
                lambda host, port: active_controller(host, port, timeout_s=TIMEOUT_S)
            ).values()
            if number >= 0
        ]
        return max(set(said), key=said.count) if said else -1

    def voters(self) -> dict[int, UUID]:
        """The controllers that vote, with their disks, as most brokers say; empty: none says anything."""
        said = [
            each
            for each in self._ask(
                lambda host, port: voter_directories(host, port, timeout_s=TIMEOUT_S)
            ).values()
            if each
        ]
        return max(said, key=said.count, default={})

    def _ask(self, ask: Callable[[str, int], T]) -> dict[int, T]:
        """What came within a moment after the first answer."""
        asked = {
            self._pool.submit(ask, *address): number
            for number, address in self._addresses().items()
            if number not in self._silent or self._silent[number].done()
        }
        found: dict[int, T] = {}
        deadline = time.monotonic() + 2 * TIMEOUT_S
        pending = set(asked)
        while pending and (left := deadline - time.monotonic()) > 0:
            done, pending = wait(pending, left, return_when=FIRST_COMPLETED)
            for future in done:
                with contextlib.suppress(OSError):
                    found[asked[future]] = future.result()
            if found:
                deadline = min(deadline, time.monotonic() + PATIENCE_S)
        self._silent = {asked[future]: future for future in pending} | {
            number: future for number, future in self._silent.items() if not future.done()
        }
        return found


def _newest(known: list[PartitionView], more: list[PartitionView]) -> list[PartitionView]:
    if len(known) != len(more):
        return max(known, more, key=len)
    return [max(pair, key=_age) for pair in zip(known, more, strict=True)]


def _age(view: PartitionView) -> tuple[int, int]:
    """In one epoch, a backup may serve readers that do not reach its primary: the earlier replica leads."""
    led = view.leader in view.replicas
    return view.leader_epoch, len(view.replicas) - view.replicas.index(view.leader) if led else 0
