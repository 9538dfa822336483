"""What a broker tells Prometheus, and the small HTTP server that tells it.

Figures are read where they are kept at the moment somebody asks; counting costs the hot path an integer at
most.
"""

import asyncio
import logging
import resource
from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelog.replication.syncing import Syncer
from tidelog.runtime.lag import LagMeter
from tidelog.runtime.server import Server

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
MAX_HEAD_BYTES = 8192


class BrokerCollector(Collector):
    def __init__(self, server: Server, lag: LagMeter, syncer: Syncer) -> None:
        self._server = server
        self._lag = lag
        self._syncer = syncer

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
            "tidelog_event_loop_lag_max_seconds", "Largest lag since the last scrape.", lag.take_max_s()
        )
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield CounterMetricFamily("tidelog_cpu_seconds", "CPU time used.", usage.ru_utime + usage.ru_stime)
        size = GaugeMetricFamily(
            "tidelog_log_size_bytes", "Bytes of a partition's log.", labels=("topic", "partition")
        )
        end = GaugeMetricFamily(
            "tidelog_log_end_offset", "Next offset of a partition.", labels=("topic", "partition")
        )
        given_up = CounterMetricFamily(
            "tidelog_records_given_up",
            "Records that unclean elections have cost, as far as this broker has seen.",
            labels=("topic", "partition"),
        )
        degraded = CounterMetricFamily(
            "tidelog_degradations",
            "How often writes began to be acknowledged with fewer copies than the topic asks for.",
            labels=("topic", "partition"),
        )
        for partition in server.broker.partitions:
            labels = (partition.name.topic, str(partition.name.partition))
            given_up.add_metric(labels, partition.hosted.given_up)
            degraded.add_metric(labels, partition.hosted.degradations)
            size.add_metric(labels, partition.log.size_bytes)
            end.add_metric(labels, partition.log.end_offset)
        yield size
        yield end
        yield given_up
        yield degraded


class MetricsServer:
    """Just enough HTTP for a scraper: GET /metrics and GET /health, one request per connection."""

    def __init__(self, collector: BrokerCollector) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host or None, port)
        logger.info("metrics on http://%s:%s/metrics", host or "0.0.0.0", port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_TIMEOUT_S)
            writer.write(self._answer(head[:MAX_HEAD_BYTES]))
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(None, 2)
        path = words[1].split(b"?")[0] if len(words) > 1 and words[0] == b"GET" else b""
        if path == b"/metrics":
            return _response(
                "200 OK", generate_latest(self._registry), "text/plain; version=0.0.4; charset=utf-8"
            )
        if path == b"/health":
            return _response("200 OK", b"ok\n")
        return _response("404 Not Found", b"there is /metrics and /health\n")


def _response(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
