"""``tidelog consume``: a topic's records to standard output.

Reads partitions directly: looking at a topic joins no consumer group and commits nothing.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from tidelog.cli.client import client_settings, explain, find_topic
from tidelog.cli.cluster.health import why_late
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, TopicName, flag
from tidelog.cli.reach import Address, refused
from tidelog.cli.records.start_position import Range, parse_start, resolve
from tidelog.cli.records.text import NO_OFFSET, Header, Record, to_json, to_plain
from tidelog.cli.tables import count

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

MESSAGES_PER_CALL = 1000
WAIT_S = 0.05
LATE_S = 2.0
SILENCE_S_MAX = 15.0
LEADER_WITHIN_S = 1.0  # a failover takes a moment
LEADER_POLL_S = 0.1


def consume(
    topic: TopicName,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="earliest, latest, an offset (100), the last N of each partition (-N), "
            "an ISO time (2026-01-31T12:00) or milliseconds since 1970 (@1700000000000).",
        ),
    ] = "earliest",
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition.")
    ] = None,
    maximum: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    follow: Annotated[
        bool,
        flag("--follow", "-f", help="Wait for new records until Ctrl-C instead of stopping at the end."),
    ] = False,
    keys: Annotated[bool, flag("--keys", help="Write KEY and the separator before each value.")] = False,
    headers: Annotated[
        bool, flag("--headers", help="Write the headers (a=1,b=2) before each value.")
    ] = False,
    offsets: Annotated[bool, flag("--offsets", help="Write PARTITION:OFFSET before each value.")] = False,
    separator: Annotated[
        str,
        typer.Option(
            "--separator", metavar="TEXT", help="Separator between these parts.", show_default="tab"
        ),
    ] = "\t",
    json: Annotated[bool, flag("--json", help="Write each record as a JSON object.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Read records of a topic and write their values to standard output, one per line.

    Starts at the oldest record and stops at the end offset of the time it started. --follow and --from latest
    wait for new records. Records of a partition are in order. Values are written unchanged; on a
    terminal, bytes that are not text are shown as \\xNN.

    Example: tidelog consume chat --from -10 --keys
    """
    position = parse_start(start)
    follow = follow or position.is_end
    consumer = _connect(bootstrap)
    try:
        _check_readable(bootstrap, topic, partition)
        ranges = {
            number: resolve(consumer, topic, number, position)
            for number in _partitions(consumer, topic, partition)
        }
        write = _writer(
            sys.stdout.buffer,
            topic,
            json=json,
            keys=keys,
            headers=headers,
            offsets=offsets,
            separator=separator.encode(),
        )
        written = 0
        try:
            told = partial(_tell_why_silent, bootstrap, topic)
            for records in read(consumer, topic, ranges, follow=follow, tell_why_silent=told):
                some = records if maximum is None else records[: maximum - written]
                write(some)
                written += len(some)
                if written == maximum:
                    break
        except KeyboardInterrupt:
            if not follow:  # for which it is the ordinary end
                raise
    finally:
        consumer.close()
    if sys.stderr.isatty():
        more = "" if follow or written == maximum else "; --follow waits for more"
        print(f"Read {count(written, 'record')} of {topic}{more}.", file=sys.stderr)


def _connect(bootstrap: str) -> "Consumer":
    from confluent_kafka import Consumer

    settings = {
        # The library insists on a name; partitions are assigned by hand and nothing is committed under it.
        "group.id": "tidelog-cli",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
    }
    return Consumer(client_settings(bootstrap, **settings))


def _check_readable(bootstrap: str, topic: str, wanted: int | None) -> None:
    """Fail at once, and with the cause, where no broker serves a partition. The client library would take it
    for one that does not exist.
    """
    deadline = time.monotonic() + LEADER_WITHIN_S
    while True:
        with ClusterClient(bootstrap) as client:
            described = client.metadata(topic)
        brokers = {each.node_id: Address(each.host, each.port) for each in described.brokers}
        down = refused([*brokers.values()])
        found = [each for each in described.topics[0].partitions if wanted in (None, each.partition_index)]
        stuck = [each for each in found if brokers.get(each.leader_id) in (None, *down)]
        if not stuck:
            return
        if time.monotonic() >= deadline:
            break
        time.sleep(LEADER_POLL_S)
    names = ", ".join(f"{topic}-{each.partition_index}" for each in stuck)
    others = "" if len(stuck) == len(found) else " --partition N reads one of the others."
    raise CommandFailed(
        f"No broker serves {names}: the leader is down, and no other replica may serve it. "
        f"`tidelog cluster status` says why, and what to start.{others}"
    )


def _partitions(consumer: "Consumer", topic: str, wanted: int | None) -> list[int]:
    there = sorted(find_topic(consumer, topic).partitions)
    if wanted is None:
        return there
    if wanted not in there:
        known = "only 0" if len(there) == 1 else f"only 0 to {there[-1]}"
        raise CommandFailed(f"Topic '{topic}' has no partition {wanted}, {known}.")
    return [wanted]


def read(
    consumer: "Consumer",
    topic: str,
    ranges: dict[int, Range],
    *,
    follow: bool,
    silence_s_max: float = SILENCE_S_MAX,
    tell_why_silent: Callable[[], None] = lambda: None,
) -> Iterator[list[Record]]:
    """The records of all ranges, in handfuls as they arrive; without an end if ``follow``.
    ``tell_why_silent`` is called once if records that are there do not arrive for long.
    """
    from confluent_kafka import KafkaError, TopicPartition

    left = {number for number, range_ in ranges.items() if follow or range_.start_offset < range_.end_offset}
    consumer.assign([TopicPartition(topic, number, ranges[number].start_offset) for number in sorted(left)])
    heard_at = time.monotonic()
    told = follow  # where silence may mean that there is nothing new
    while left:
        records = []
        for message in filter(_concerns_us, consumer.consume(MESSAGES_PER_CALL, WAIT_S)):
            error = message.error()
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not at_end and not error.retriable():
                raise CommandFailed(explain(error, topic))
            record = as_record(message)
            if record.partition not in left:
                continue
            end_offset = ranges[record.partition].end_offset
            # The end is that of the start, because a busy topic would never be read to its own. A notice that
            # the partition ended counts too: its last offsets may be no records (compacted, or control).
            if error is None and (follow or record.offset < end_offset):
                records.append(record)
            if not follow and (at_end or record.offset >= end_offset - 1):
                left.discard(record.partition)
        if records:
            heard_at = time.monotonic()
        elif not follow and left and time.monotonic() - heard_at > silence_s_max:
            # The library would try for ever to reach a broker that is gone.
            raise CommandFailed(
                f"The broker stopped answering before the end of '{topic}'; `tidelog cluster status` says "
                "why, and what to start."
            )
        elif not told and left and time.monotonic() - heard_at > LATE_S:
            told = True
            tell_why_silent()
        yield records


def _tell_why_silent(bootstrap: str, topic: str) -> None:
    print(f"Still waiting for records of {topic}. {why_late(bootstrap)}".rstrip(), file=sys.stderr)


def _concerns_us(message: "Message") -> bool:
    """The library looks for the group of the name that it insists on. Access rules may refuse that."""
    from confluent_kafka import KafkaError

    error = message.error()
    return error is None or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED


def _writer(
    output: IO[bytes], topic: str, *, json: bool, keys: bool, headers: bool, offsets: bool, separator: bytes
) -> Callable[[list[Record]], None]:
    terminal = output.isatty()

    def line_of(record: Record) -> bytes:
        if json:
            return to_json(topic, record).encode()
        line = to_plain(record, keys=keys, headers=headers, offsets=offsets, separator=separator)
        return printable(line) if terminal else line

    def write(records: list[Record]) -> None:
        output.writelines(line_of(record) + b"\n" for record in records)
        output.flush()  # a reader behind a pipe wants to see what there is, too

    return write


def as_record(message: "Message") -> Record:
    timestamp_type, timestamp_ms = message.timestamp()
    offset = message.offset()
    return Record(
        message.key(),
        message.value(),
        cast("list[Header]", message.headers() or []),
        timestamp_ms if timestamp_type else None,
        message.partition(),
        offset if offset is not None else NO_OFFSET,
    )


def printable(line: bytes) -> bytes:
    """Text as a terminal may see it: a stranger's record must not send it escape sequences."""
    text = line.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c in "\t\n" else f"\\x{ord(c):02x}" for c in text).encode()
