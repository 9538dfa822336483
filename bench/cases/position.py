"""Does a fetch cost the same wherever it reads? Fetches at the start, middle and end of a 10 GB log.

The log is laid down in Kafka's file format while the broker is stopped, as sparse files: every batch is a
real header (with a right CRC) in front of a hole of zeros, which takes one disk block instead of 64 KB. The
three places are asked in turn, at random offsets within one hundredth of the log, so that noise falls on all
three alike.
"""

import random
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import wire
from bench.kafka import KafkaServer
from bench.lineup import Options, kafka_jars, work_directory
from bench.load.job import percentile
from bench.load.raw import Connection
from bench.process import BenchError, wait_until
from bench.report import Check, Column, Report
from bench.servers import BrokerServer, TidelogServer, Topics

TOPIC = "bench-position"
SEGMENTS = 10
BATCHES_PER_SEGMENT = 16_000
BATCH_SIZE = 65_536  # with 16,000 of them a segment stays just below 1 GiB, where brokers roll by default
RECORDS_PER_BATCH = 64
END_OFFSET = SEGMENTS * BATCHES_PER_SEGMENT * RECORDS_PER_BATCH
PLACES = ("start", "middle", "end")
PLACE_OFFSETS = END_OFFSET // 100
COLUMNS = (Column("p50_us", "p50 µs", ",.0f"), Column("p99_us", "p99 µs", ",.0f"))


def run(options: Options) -> list[Report]:
    size_gb = SEGMENTS * BATCHES_PER_SEGMENT * BATCH_SIZE / 1e9
    title = f"one {BATCH_SIZE // 1024} KB batch fetched from a {size_gb:.1f} GB log, raw client"
    report = Report(title, COLUMNS, ("server", "place"))
    with work_directory() as directory:
        for server in _servers(options, directory):
            with ExitStack() as stack:
                stack.callback(server.stop)
                try:
                    _measure(server, options, report)
                except BenchError as error:
                    options.leave_out(server.name, error)
    for name in ("tidelog", "kafka"):
        medians = [report.value("p50_us", server=name, place=place) for place in PLACES]
        present = [median for median in medians if median is not None]
        spread = max(present) / min(present) if present else None
        label = f"{name}: slowest over fastest place"
        report.checks.append(Check(label, spread, 1.2 if name == "tidelog" else None, False))
    return [report]


def _servers(options: Options, directory: Path) -> Iterator[BrokerServer]:
    if "tidelog" in options.servers:
        yield TidelogServer(directory / "tidelog")
    if "kafka" in options.servers:
        jars = kafka_jars(options)
        if jars is not None:
            yield KafkaServer(directory / "kafka", jars)


def _measure(server: BrokerServer, options: Options, report: Report) -> None:
    with options.console.status(f"{server.name}: laying down a sparse log"):
        server.start()
        Topics(server).create(TOPIC, 1)
        server.stop()
        lay_down_log(server.data / f"{TOPIC}-0", int(time.time() * 1000))
        server.start()
        connection = Connection(server.port)
        wait_until(lambda: _end_offset(connection) == END_OFFSET, 60, "serving the prepared log to its end")
    fetches = 300 if options.quick else 2000
    with options.console.status(f"{server.name}: fetching"):
        _fetch_everywhere(connection, fetches)  # brings pages and code to life
        samples = _fetch_everywhere(connection, fetches)
    for place in PLACES:
        ordered = sorted(samples[place])
        row = {"p50_us": statistics.median(ordered), "p99_us": percentile(ordered, 0.99)}
        report.rows.append({"server": server.name, "place": place} | row)


def _end_offset(connection: Connection) -> int:
    error, high_watermark, _ = wire.fetch_records(connection.ask(wire.fetch_request(TOPIC, 0, 0, BATCH_SIZE)))
    return -1 if error else high_watermark


def _fetch_everywhere(connection: Connection, fetches: int) -> dict[str, list[float]]:
    chance = random.Random(7)
    first = {"start": 0, "middle": END_OFFSET // 2, "end": END_OFFSET - PLACE_OFFSETS}
    samples: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(fetches):
        for place in PLACES:
            offset = first[place] + chance.randrange(PLACE_OFFSETS)
            request = wire.fetch_request(TOPIC, 0, offset, BATCH_SIZE)
            before = time.perf_counter()
            answer = connection.ask(request)
            samples[place].append((time.perf_counter() - before) * 1e6)
            error, _, size = wire.fetch_records(answer)
            if error or size < BATCH_SIZE:
                raise BenchError(f"a fetch at offset {offset} brought {size} bytes and error code {error}")
    return samples


def lay_down_log(directory: Path, now_ms: int) -> None:
    """Replace an empty partition by ``SEGMENTS`` sparse segments with their indexes."""
    for old in directory.glob("0000*"):
        old.unlink()
    header = bytearray(
        wire.record_batch(bytes(BATCH_SIZE - wire.BATCH_HEADER_SIZE), RECORDS_PER_BATCH, now_ms)
    )
    del header[wire.BATCH_HEADER_SIZE :]
    struct.pack_into(">i", header, 12, 0)  # leader epoch
    for number in range(SEGMENTS):
        _lay_down_segment(directory, number * BATCHES_PER_SEGMENT * RECORDS_PER_BATCH, header, now_ms)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def _lay_down_segment(directory: Path, base_offset: int, header: bytearray, now_ms: int) -> None:
    index = bytearray()
    with (directory / f"{base_offset:020d}.log").open("wb", buffering=0) as file:
        for number in range(BATCHES_PER_SEGMENT):
            # Neither base offset nor leader epoch is covered by the CRC, so one header serves all batches.
            struct.pack_into(">q", header, 0, base_offset + number * RECORDS_PER_BATCH)
            file.seek(number * BATCH_SIZE)
            file.write(header)
            index += struct.pack(">ii", (number + 1) * RECORDS_PER_BATCH - 1, number * BATCH_SIZE)
        file.truncate(BATCHES_PER_SEGMENT * BATCH_SIZE)
    (directory / f"{base_offset:020d}.index").write_bytes(index)
    last_offset = BATCHES_PER_SEGMENT * RECORDS_PER_BATCH - 1
    (directory / f"{base_offset:020d}.timeindex").write_bytes(struct.pack(">qi", now_ms, last_offset))
