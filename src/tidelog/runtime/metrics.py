"""A broker's Prometheus metrics, and the small HTTP server for them.

Values are read from their source when they are scraped. The hot path at most increments an integer.
"""

import asyncio
import json
import logging
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tidelog.broker.node.node import Node
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import StorageError
from tidelog.runtime.condition import Condition, Counts
from tidelog.runtime.group_lines import of_groups
from tidelog.runtime.lag import Histogram, LagMeter
from tidelog.runtime.leader_changes import LeaderChanges
from tidelog.runtime.metric_text import about as _about
from tidelog.runtime.past import given_up, past
from tidelog.runtime.server import Server

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0  # Then a client that does not read is disconnected.
CONNECTIONS_MAX = 100  # Each needs a file descriptor, which the logs need, too.
MAX_HEAD_BYTES = 8192
PARTITIONS_PER_SLICE = 500


class BrokerCollector(Collector):
    def __init__(self, server: Server, lag: LagMeter, node: Node) -> None:
        self._server = server
        self._lag = lag
        self._node = node
        self._syncer = node.host.syncer
        self.condition = Condition(node, server.broker)
        self._leader_changes = LeaderChanges(node, server.broker.services)
        self.slices = 0  # number of slices of partitions so far

    def collect(self) -> Iterator[Metric]:
        server, lag = self._server, self._lag
        yield GaugeMetricFamily("tidelog_connections", "Open client connections.", len(server.connections))
        yield CounterMetricFamily("tidelog_requests", "Requests taken up.", server.requests)
        yield GaugeMetricFamily(
            "tidelog_partitions", "Partitions on this broker.", len(server.broker.partitions)
        )
        yield GaugeMetricFamily(
            "tidelog_fetch_sessions", "Open fetch sessions.", len(server.broker.fetch_sessions)
        )
        yield CounterMetricFamily("tidelog_log_syncs", "Syncs of partition logs to disk.", self._syncer.syncs)
        yield GaugeMetricFamily("tidelog_event_loop_lag_seconds", "Latest lag of the event loop.", lag.last_s)
        yield GaugeMetricFamily(
            "tidelog_event_loop_lag_max_seconds",
            "Largest lag since the last scrape.",
            lag.late.take_largest_s(),
        )
        yield from self._cluster()
        yield from self._requests()
        yield from self._leaders()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield CounterMetricFamily("tidelog_cpu_seconds", "CPU time used.", usage.ru_utime + usage.ru_stime)
        yield GaugeMetricFamily("tidelog_memory_bytes", "Memory in use (resident).", memory_bytes())
        yield _histogram("tidelog_event_loop_delay_seconds", "How late the event loop was.", lag.late)
        about = "The same without the time in which other programs had the processor"
        yield _histogram("tidelog_event_loop_held_seconds", f"{about}.", lag.held)
        yield GaugeMetricFamily(
            "tidelog_event_loop_held_max_seconds", f"{about}: the largest since the last scrape.",
            lag.held.take_largest_s(),
        )  # fmt: skip
        about = "The part of the delay in which the event loop's thread computed"
        yield _histogram("tidelog_event_loop_computed_seconds", f"{about}.", lag.computed)
        yield GaugeMetricFamily(
            "tidelog_event_loop_computed_max_seconds", f"{about}: the largest since the last scrape.",
            lag.computed.take_largest_s(),
        )  # fmt: skip

    def _cluster(self) -> Iterator[Metric]:
        node, partitions = self._node, self._server.broker.partitions
        yield GaugeMetricFamily(
            "tidelog_broker_session", "1 while the controllers count this broker as up.", int(node.ready)
        )
        known = node.metadata.leader >= 0
        yield GaugeMetricFamily(
            "tidelog_controller_known", "1 while an active controller is known.", int(known)
        )
        yield GaugeMetricFamily(
            "tidelog_controller_active", "1 while this node is the active controller.",
            int(node.controller.active),
        )  # fmt: skip
        try:
            total_bytes, free_bytes = partitions.disk_usage()
        except StorageError:  # The directory was removed; all other figures are worth having.
            return
        yield GaugeMetricFamily("tidelog_disk_total_bytes", "Size of the volume with the data.", total_bytes)
        yield GaugeMetricFamily("tidelog_disk_free_bytes", "Free space of that volume.", free_bytes)

    def _requests(self) -> Iterator[Metric]:
        times = HistogramMetricFamily(
            "tidelog_request_seconds",
            "From the arrival of a request until its response is sent. Fetches wait for records.",
            labels=["request"],
        )
        for name, found in self._server.times.rows():
            times.add_metric([name], list(found.cumulative()), found.total_s)
        yield times
        reads = self._server.reads
        yield CounterMetricFamily(
            "tidelog_page_cache_read_bytes",
            "Bytes of segments that were sent from the page cache, to consumers and followers.",
            reads.cached_bytes,
        )
        yield CounterMetricFamily(
            "tidelog_disk_reads", "Reads of segments that had to wait for the disk.", reads.waited
        )

    def _leaders(self) -> Iterator[Metric]:
        found = self._leader_changes
        yield CounterMetricFamily(
            "tidelog_leader_elections",
            "How often this broker became the leader of a partition.",
            found.changes,
        )
        yield CounterMetricFamily(
            "tidelog_unclean_leader_elections",
            "Those after which committed records may be missing.",
            found.unclean,
        )
        yield _histogram(
            "tidelog_leader_election_seconds",
            "From the last sign of a lost leader until this broker led in its place.",
            found.durations,
        )

    async def past(self, begin: int) -> dict[str, Any]:
        """Decisions of the controllers, and what they have cost on this broker; for ``tidelog page``."""
        return await past(self._node, begin) | {"given_up": given_up(self._node)}

    def process(self) -> dict[str, float]:
        """A few figures of the process, for ``tidelog page``: cheap, and nothing is reset by reading them."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "memory_bytes": memory_bytes(),
            "requests": self._server.requests,
            "connections": len(self._server.connections),
            "loop_lag_seconds": self._lag.last_s,
        }

    async def of_partitions(self) -> bytes:
        """The metrics of every partition, in the text format. A broker may have ten thousand partitions, so
        the event loop runs other tasks in between, and no metric objects are created.
        """
        broker, counts = self._server.broker, Counts()
        counts.failed += broker.partitions.metadata_failed
        partitions = list(broker.partitions)
        texts: dict[str, list[str]] = {name: [about] for name, about, _ in _OF_PARTITIONS}
        for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
            for partition in partitions[start : start + PARTITIONS_PER_SLICE]:
                # Topic names need no escaping.
                labels = f'{{partition="{partition.name.partition}",topic="{partition.name.topic}"}}'
                for name, _, value in _OF_PARTITIONS:
                    texts[name].append(f"{name}{labels} {float(value(partition))}\n")
                counts.add(broker, partition)
            self.slices += 1
            await asyncio.sleep(0)
        texts |= {name: [f"{about}{name} {float(figure(counts))}\n"] for name, about, figure in _COUNTED}
        texts["groups"] = [line async for line in of_groups(broker)]
        self._leader_changes.forget_all_but({partition.name for partition in partitions})
        return "".join(chain.from_iterable(texts.values())).encode()


def memory_bytes() -> int:
    """Resident memory of this process; where there is no /proc, the most that it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _histogram(name: str, about: str, found: Histogram) -> Metric:
    return HistogramMetricFamily(name, about, buckets=list(found.cumulative()), sum_value=found.total_s)


_Figure = Callable[[Partition], float]
_OF_PARTITIONS: tuple[tuple[str, str, _Figure], ...] = tuple(
    (name, _about(name, kind, about), figure)
    for name, kind, about, figure in (
        (
            "tidelog_log_size_bytes", "gauge", "Bytes of a partition's log.",
            cast(_Figure, lambda partition: partition.log.size_bytes),
        ),
        (
            "tidelog_log_end_offset", "gauge", "Next offset of a partition.",
            cast(_Figure, lambda partition: partition.log.end_offset),
        ),
        (
            "tidelog_replica_lag_records", "gauge", "Committed records that this replica lacks, at least.",
            cast(_Figure, lambda partition: partition.replica.watermark.lacks(partition.log.end_offset)),
        ),
        (
            "tidelog_bytes_in_total", "counter", "Bytes of records that producers have written here.",
            cast(_Figure, lambda partition: partition.bytes_in),
        ),
        (
            "tidelog_records_in_total", "counter", "Records that producers have written here.",
            cast(_Figure, lambda partition: partition.records_in),
        ),
        (
            "tidelog_bytes_out_total", "counter", "Bytes of records that were sent to consumers.",
            cast(_Figure, lambda partition: partition.bytes_out),
        ),
        (
            "tidelog_records_given_up_total", "counter",
            "Records that unclean elections have cost, as far as this broker has seen.",
            cast(_Figure, lambda partition: partition.driver.given_up),
        ),
        (
            "tidelog_degradations_total", "counter",
            "How often writes began to be acknowledged with fewer copies than the topic asks for.",
            cast(_Figure, lambda partition: partition.driver.degradations),
        ),
    )
)  # fmt: skip


_COUNTED: tuple[tuple[str, str, Callable[[Counts], int]], ...] = tuple(
    (name, _about(name, "gauge", about), figure)
    for name, about, figure in (
        (
            "tidelog_leader_partitions", "Partitions that this broker leads.",
            cast(Callable[[Counts], int], lambda counts: counts.led),
        ),
        (
            "tidelog_leaderless_partitions", "Partitions with a replica here and without a leader.",
            cast(Callable[[Counts], int], lambda counts: counts.leaderless),
        ),
        (
            "tidelog_under_replicated_partitions", "Led partitions with replicas that are not in sync.",
            cast(Callable[[Counts], int], lambda counts: counts.under_replicated),
        ),
        (
            "tidelog_below_minimum_partitions",
            "Led partitions with too few replicas in sync for acks=all.",
            cast(Callable[[Counts], int], lambda counts: counts.below_minimum),
        ),
        (
            "tidelog_failed_logs", "Logs that cannot be written.",
            cast(Callable[[Counts], int], lambda counts: counts.failed),
        ),
    )
)  # fmt: skip


class MetricsServer:
    """A minimal HTTP server for scrapers and probes, one request per connection.

    ========== ==============================================================================================
    /metrics   everything, for Prometheus
    /live      the process answers; the probe whose failure means a restart
    /ready     it has a session and has opened its partitions; the probe whose failure means no traffic
    /health    it has a session, knows an active controller and can write all of its logs; for people
    /process   a few figures of the process as JSON; for ``tidelog page``
    /past      what the metadata log says has happened, as JSON; for ``tidelog page``
    ========== ==============================================================================================
    """

    def __init__(self, collector: BrokerCollector) -> None:
        self._collector = collector
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._silent: dict[asyncio.StreamWriter, None] = {}  # without a request yet, oldest first
        self._scrape = asyncio.Lock()  # With thousands of partitions, each takes time and megabytes.

    async def listen(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host or None, port)
        logger.info("metrics on http://%s:%s/metrics", host or "0.0.0.0", port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        self._silent[writer] = None
        try:
            if self._connections > CONNECTIONS_MAX:
                # Silent strangers must not keep probes away: then the process would be killed.
                oldest = next(iter(self._silent))
                oldest.transport.abort()
                if oldest is writer:
                    return
                del self._silent[oldest]
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            self._silent.pop(writer, None)
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                writer.write(await self._response(head[:MAX_HEAD_BYTES]))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            self._connections -= 1
            self._silent.pop(writer, None)
            writer.transport.abort()

    async def _response(self, head: bytes) -> bytes:
        words = head.split(None, 2)
        path = words[1].split(b"?")[0] if len(words) > 1 and words[0] == b"GET" else b""
        if path == b"/metrics":
            async with self._scrape:
                text = generate_latest(self._registry) + await self._collector.of_partitions()
            return _response("200 OK", text, "text/plain; version=0.0.4; charset=utf-8")
        if path == b"/past":
            async with self._scrape:
                found = await self._collector.past(_number(words[1].partition(b"?from=")[2]))
            return _response("200 OK", json.dumps(found).encode(), "application/json")
        if path == b"/process":
            figures = json.dumps(self._collector.process()).encode()
            return _response("200 OK", figures, "application/json")
        condition = self._collector.condition
        if path == b"/live":
            return _verdict([])
        if path == b"/ready":
            return _verdict(list(condition.unready()))
        if path == b"/health":
            return _verdict(list(condition.problems()))
        return _response("404 Not Found", b"there is /metrics, /health, /ready, /live, /process and /past\n")


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 20 else -1


def _verdict(problems: Sequence[str]) -> bytes:
    if not problems:
        return _response("200 OK", b"ok\n")
    return _response("503 Service Unavailable", "".join(f"{each}\n" for each in problems).encode())


def _response(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
