"""``tidelog produce``: lines of text into a topic."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.client import client_settings, explain, find_topic
from tidelog.cli.cluster.controllers import require_controllers
from tidelog.cli.cluster.health import why_late
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed, InvalidCommandLine, complain
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, TopicName, flag
from tidelog.cli.records.text import BadRecord, Header, Record, parse_json, parse_plain
from tidelog.cli.settings import parse_assignments
from tidelog.cli.tables import count
from tidelog.cli.units import Duration
from tidelog.config.kinds import INT_MAX
from tidelog.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

DELIVERY_TIMEOUT_S = 30.0
LATE_S = 2.0
# The topic's max.message.bytes is what decides; the client's own limit must not be in its way.
MESSAGE_BYTES_MAX = 1_000_000_000
QUEUE_FULL_POLL_S = 0.1
INTERRUPTED_S = 1.0  # after Ctrl-C the user waits no longer than this
LINES_PER_PROGRESS = 1000


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: TopicName,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Read from this file instead of standard input."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Key of every record; records with the same key go to one partition."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            metavar="TEXT",
            help="Each line is KEY TEXT VALUE, for example --key-separator :",
        ),
    ] = None,
    headers: Annotated[
        list[str],
        typer.Option("--header", metavar="KEY=VALUE", help="A header for every record; may be repeated."),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            metavar="N",
            min=0,
            max=INT_MAX,
            help="Write to this partition instead of choosing by key.",
        ),
    ] = None,
    acks: Annotated[
        Acks,
        typer.Option(
            "--acks",
            help="Acknowledgement to wait for: all in-sync replicas, the leader only (1), or none (0).",
        ),
    ] = Acks.ALL,
    compression: Annotated[
        Compression, typer.Option("--compression", help="Compression of batches.")
    ] = Compression.NONE,
    json: Annotated[
        bool,
        flag("--json", help='Each line is an object: {"key", "value", "headers", "timestamp", "partition"}.'),
    ] = False,
    create: Annotated[
        bool, flag("--create", help="Create the topic if it does not exist, with the brokers' defaults.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="TIME",
            parser=Duration(),
            help="How long to wait for the acknowledgement of a record, such as 10s.",
        ),
    ] = DELIVERY_TIMEOUT_S,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write records to a topic, one per line of standard input or of a file.

    A topic that does not exist is created after a question, or with --create.

    An empty line is an empty record. With --json, a null value is a tombstone, a value that is not a string
    is written as JSON, and key_base64 and value_base64 carry binary content.

    Example: printf 'alice:hello\\nbob:hi\\n' | tidelog produce chat --key-separator :
    """
    if json and key_separator is not None:
        raise InvalidCommandLine(
            "--key-separator is for plain lines; with --json the key is a field of the object."
        )
    if timeout <= 0:
        raise InvalidCommandLine("--timeout must be longer than 0 s.")
    if timeout * 1000 > INT_MAX:
        raise InvalidCommandLine("--timeout must be at most 24 days.")
    separator = key_separator.encode() if key_separator else None
    parse: Callable[[bytes], Record] = parse_json if json else lambda line: parse_plain(line, separator)
    _check_topic(bootstrap, topic, create=create)
    producer = _producer(bootstrap, acks, compression, timeout)
    find_topic(producer, topic)
    common = Record(
        key.encode() if key is not None else None,
        None,
        [(name, value.encode()) for name, value in parse_assignments(headers, "--header").items()],
        None,
        partition,
    )
    sender = Sender(producer, topic, common, lambda: _tell_why_late(bootstrap, topic))
    with _open_input(file) as lines, _progress(file) as advance:
        sender.send_all(lines, parse, advance)
    print(f"Wrote {count(sender.written, 'record')} to {topic}.", file=sys.stderr)


def _check_topic(bootstrap: str, topic: str, *, create: bool) -> None:
    with ClusterClient(bootstrap) as client:
        code = ErrorCode(client.metadata(topic).topics[0].error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            require_controllers(client)
    if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or create:
        return
    absent = f"Topic '{topic}' does not exist"
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{absent}; pass --create, or create it with `tidelog topic create {topic}`. Nothing was written."
        )
    if not typer.confirm(f"{absent}. Create it with the brokers' defaults?"):
        raise CommandFailed("Nothing was written.")


def _tell_why_late(bootstrap: str, topic: str) -> None:
    print(f"Still waiting for acknowledgements of {topic}. {why_late(bootstrap)}".rstrip(), file=sys.stderr)


def _producer(bootstrap: str, acks: Acks, compression: Compression, timeout_s: float) -> "Producer":
    from confluent_kafka import Producer

    return Producer(
        client_settings(
            bootstrap,
            acks=acks.value,
            **{
                "compression.type": compression.value,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "message.timeout.ms": max(int(timeout_s * 1000), 1),
                "linger.ms": 5,
                # One at a time: a retried request must not be overtaken, so lines keep their order.
                "max.in.flight.requests.per.connection": 1,
                # Where Kafka's own clients send a key, not where librdkafka would by itself.
                "partitioner": "murmur2_random",
            },
        )
    )


class Sender:
    """Sends lines and keeps the account of what was acknowledged."""

    def __init__(
        self,
        producer: "Producer",
        topic: str,
        common: Record,
        tell_why_late: Callable[[], None] = lambda: None,
    ) -> None:
        """``tell_why_late`` is called once if acknowledgements take long."""
        self.written = 0
        self._tell_why_late = tell_why_late
        self._told = False
        self._answered_s = time.monotonic()  # when the last acknowledgement or refusal came, or none was due
        self._responses_due = 0
        self._producer = producer
        self._topic = topic
        self._common = common  # what the command line says of every record; a record's own word goes first
        self._refused: str | None = None

    def send_all(
        self, lines: Iterable[bytes], parse: Callable[[bytes], Record], advance: Callable[[int], None]
    ) -> None:
        """Send all lines; the first one that is refused ends it, after what was sent before is settled."""
        try:
            try:
                self._send_lines(lines, parse, advance)
            finally:
                if self._producer.flush(LATE_S):
                    self._tell()
                    self._producer.flush()
        except (SystemError, KeyboardInterrupt):
            # The library loses what a callback raises, and complains of that. Only Ctrl-C raises in ours.
            complain(f"Interrupted; {self._account()}.")
            raise KeyboardInterrupt from None
        if self._refused is not None:
            raise CommandFailed(
                f"{self._refused.rstrip('.')}; {count(self.written, 'record')} had been written."
            )

    def _account(self) -> str:
        """After an interrupt: the answers that are there count, and for those that have not come, or whose
        callback was interrupted, nothing is claimed.
        """
        with suppress(SystemError, KeyboardInterrupt):
            self._producer.flush(INTERRUPTED_S)
        said = f"{count(self.written, 'record')} had been acknowledged"
        if self._responses_due:
            said += f", and of {self._responses_due} more it is not known"
        return said

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._tell_why_late()

    def _tell_if_late(self) -> None:
        """While there is more to send: a full queue and slow input must not hide what is wrong."""
        if self._responses_due and time.monotonic() - self._answered_s > LATE_S:
            self._tell()

    def _send_lines(
        self, lines: Iterable[bytes], parse: Callable[[bytes], Record], advance: Callable[[int], None]
    ) -> None:
        for number, line in enumerate(lines, 1):
            try:
                self._send(number, parse(line.removesuffix(b"\n")))
            except BadRecord as error:
                self._refused = f"Line {number} was refused: {error}"
            self._producer.poll(0)
            self._tell_if_late()
            advance(len(line))
            if self._refused is not None:
                return

    def _send(self, number: int, record: Record) -> None:
        from confluent_kafka import KafkaException

        headers: list[Header] = self._common.headers + record.headers
        arguments: dict[str, Any] = {"headers": headers} if headers else {}
        partition = record.partition if record.partition is not None else self._common.partition
        if partition is not None:
            arguments["partition"] = partition
        if record.timestamp_ms is not None:
            arguments["timestamp"] = record.timestamp_ms
        key = record.key if record.key is not None else self._common.key
        delivered = partial(self._delivered, number)
        while True:
            try:
                self._producer.produce(self._topic, record.value, key, on_delivery=delivered, **arguments)
                if not self._responses_due:
                    self._answered_s = time.monotonic()
                self._responses_due += 1
                return
            except BufferError:
                self._producer.poll(QUEUE_FULL_POLL_S)
                self._tell_if_late()
            except KafkaException as error:
                raise BadRecord(explain(error.args[0], self._topic)) from None

    def _delivered(self, number: int, error: "KafkaError | None", _message: "Message") -> None:
        self._responses_due -= 1
        self._answered_s = time.monotonic()
        if error is None:
            self.written += 1
        elif self._refused is None:
            self._refused = f"Line {number} was refused: {explain(error, self._topic)}"


@contextmanager
def _open_input(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None or str(file) == "-":
        if sys.stdin.isatty():
            print("Type one record per line; Ctrl-D ends.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}.") from None
    with opened:
        yield opened


@contextmanager
def _progress(file: Path | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal while a file is sent; elsewhere nothing, so that logs stay clean."""
    if file is None or not file.is_file() or not sys.stderr.isatty():
        yield lambda _size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=file.stat().st_size)
        pending = [0, 0]  # lines and bytes since the bar was moved: moving it costs more than sending a line

        def advance(size: int) -> None:
            pending[0] += 1
            pending[1] += size
            if pending[0] == LINES_PER_PROGRESS:
                progress.advance(task, pending[1])
                pending[:] = [0, 0]

        yield advance
