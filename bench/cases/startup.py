"""Start to first acknowledged write, idle memory, and what 1,000 partitions add to both.

Times start when the process is started and end when a write is acknowledged; a bare socket tries every 2 ms,
because a client library's retry pauses would be measured instead. The topic of a fresh broker comes into
being through the first metadata request, as it does for any producer.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import wire
from bench.kafka import KafkaServer
from bench.lineup import Options, kafka_jars, work_directory
from bench.load.raw import Connection, first_write
from bench.process import BenchError, resident_mb
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import BrokerServer, Server, TidelogServer, Topics

FIRST_TOPIC = "bench-first"
MANY_TOPIC = "bench-many"
MANY_PARTITIONS = 1_000
SETTLE_SECONDS = 2.0
COLUMNS = (
    Column("fresh_s", "fresh start s", ",.2f"),
    Column("restart_s", "restart s", ",.2f"),
    Column("idle_mb", "idle MB", ",.0f"),
    Column("many_added_mb", "1,000 partitions add MB", ",.0f"),
    Column("many_restarted_mb", "MB after restart with them", ",.0f"),
    Column("many_restart_s", "restart with them s", ",.2f"),
    Column("many_added_s", "they add s", ",.2f"),
)


def run(options: Options) -> list[Report]:
    report = Report("start to first acknowledged write, and memory", COLUMNS, ("server",))
    found: dict[str, list[dict[str, float | None]]] = {}
    for number in range(options.rounds):
        with work_directory() as directory:
            for server in _servers(options, directory):
                with ExitStack() as stack, options.console.status(f"{server.name}, round {number + 1}"):
                    stack.callback(server.stop)
                    try:
                        figures = _measure(server)
                        found.setdefault(server.name, []).append(figures)
                    except BenchError as error:
                        options.leave_out(server.name, error)
    for name, rounds in found.items():
        report.rows.append({"server": name} | merge_rounds(rounds))
    ours = {"server": "tidelog"}
    report.checks = [
        Check("fresh start to first acknowledged write", report.value("fresh_s", **ours), 1, False, "s"),
        Check("idle memory", report.value("idle_mb", **ours), 60, False, "MB"),
        Check("memory added by 1,000 partitions", report.value("many_added_mb", **ours), 100, False, "MB"),
        Check("start time added by 1,000 partitions", report.value("many_added_s", **ours), 2, False, "s"),
    ]
    return [report]


def _servers(options: Options, directory: Path) -> Iterator[BrokerServer]:
    if "tidelog" in options.servers:
        yield TidelogServer(directory / "tidelog")
    if "kafka" in options.servers:
        jars = kafka_jars(options)
        if jars is not None:
            yield KafkaServer(directory / "kafka", jars)


def _measure(server: BrokerServer) -> dict[str, float | None]:
    fresh = _time_to_first_write(server, FIRST_TOPIC)
    server.stop()
    restart = _time_to_first_write(server, FIRST_TOPIC)
    time.sleep(SETTLE_SECONDS)
    idle = resident_mb(server.pid)
    Topics(server).create(MANY_TOPIC, MANY_PARTITIONS)
    _write_to_each(server)
    time.sleep(SETTLE_SECONDS)
    many = resident_mb(server.pid)
    server.stop()
    many_restart = _time_to_first_write(server, MANY_TOPIC)
    time.sleep(SETTLE_SECONDS)
    return {
        "fresh_s": fresh,
        "restart_s": restart,
        "idle_mb": idle,
        "many_added_mb": many - idle,
        "many_restarted_mb": resident_mb(server.pid),
        "many_restart_s": many_restart,
        "many_added_s": many_restart - restart,
    }


def _time_to_first_write(server: Server, topic: str) -> float:
    batch = wire.batch_of(b"x" * 100, 1, int(time.time() * 1000))
    write = wire.produce_request(topic, 0, batch, acks=1)
    find = wire.metadata_request(topic, create=True)
    started = time.perf_counter()
    server.launch()
    connection: Connection | None = None
    while time.perf_counter() - started < 120:
        try:
            connection = connection or Connection(server.port)
            connection.ask(find)
            if wire.produce_error(bytes(connection.ask(write))) == 0:
                return time.perf_counter() - started
        except (OSError, BenchError):
            connection = None
            server.check_alive()
        time.sleep(0.002)
    raise BenchError(f"{server.name} acknowledged no write within 120 s of its start")


def _write_to_each(server: Server) -> None:
    """A partition without a record may be nothing but a name; one record each makes them real."""
    connection = Connection(server.port)
    batch = wire.batch_of(b"x" * 100, 1, int(time.time() * 1000))
    for partition in range(MANY_PARTITIONS):
        first_write(connection, wire.produce_request(MANY_TOPIC, partition, batch, acks=1))
    connection.socket.close()
