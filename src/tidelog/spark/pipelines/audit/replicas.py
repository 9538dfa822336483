"""Where the replicas of a topic are, and their bytes: in segment directories, or on the brokers that hold
them.

Owns finding and reading. A broker is asked like a consumer that fetches from the nearest replica, so each
returns its own bytes, up to the high watermark it knows. Directories have everything; the high watermark is
the broker's last checkpoint.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import Refused
from tidelog.client.messages import EARLIEST, FETCH_VERSION, fetch_request, fetched
from tidelog.client.settings import ClientSettings
from tidelog.errors import CorruptBatch
from tidelog.log.checkpoints import HIGH_WATERMARKS_FILE, decode_offsets
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options
from tidelog.types import TopicPartition

_FETCH_BYTES = 4 << 20
_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")


class Bytes(NamedTuple):
    """A run of batches, and where it is."""

    place: str
    data: memoryview
    is_last: bool  # may end in the middle of a batch that is being written


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of one partition. Picklable: executors read it."""

    broker: str  # its number, or its directory
    topic: str
    partition: int
    high_watermark: int  # -1: unknown
    directory: str = ""
    address: tuple[str, int] = ("", 0)
    client: ClientSettings | None = None

    def read(self, offset: int = -1) -> Iterator[Bytes]:
        """Everything; from the batch with ``offset`` on if that saves work."""
        return self._read_files() if self.directory else self._fetch(offset)

    def _read_files(self) -> Iterator[Bytes]:
        segments = sorted(Path(self.directory).glob("*.log"))
        for number, path in enumerate(segments):
            yield Bytes(path.name, memoryview(path.read_bytes()), number == len(segments) - 1)

    def _fetch(self, offset: int) -> Iterator[Bytes]:
        if self.client is None:
            return
        with BrokerConnection(*self.address, self.client) as connection:
            if offset < 0:
                offset = self._start_offset()
            while offset < self.high_watermark:
                body = fetch_request(
                    self.topic, self.partition, offset, max_bytes=_FETCH_BYTES, max_wait_ms=500, min_bytes=1,
                    read_committed=False, rack="",
                )  # fmt: skip
                response = fetched(connection.call(Api.FETCH, FETCH_VERSION, body))
                if response.error:
                    where = f"{self.topic}-{self.partition} cannot be read on broker {self.broker}"
                    raise Refused(where, response.error)
                if not response.records:
                    return
                yield Bytes(f"fetched at {offset}", response.records, True)
                offset = max(_next_offset(response.records), offset + 1)

    def _start_offset(self) -> int:
        with Cluster(self.client) as cluster:  # type: ignore[arg-type]
            asked = (self.topic, self.partition)
            return cluster.list_offsets({asked: EARLIEST})[asked]


def _next_offset(records: memoryview) -> int:
    from tidelog.protocol.batch import iterate

    return max((header.next_offset for _, header in iterate(records)), default=0)


def in_directories(directories: list[str], topics: list[str]) -> list[Replica]:
    """Replicas under broker directories (``DIR/broker-1`` of ``tidelog up``, or Kafka's log directories)."""
    found = [replica for directory in directories for replica in _in_directory(Path(directory), topics)]
    if not found:
        raise OptionError(f"There is no partition of {', '.join(topics)} in {', '.join(directories)}.")
    return found


def _in_directory(directory: Path, topics: list[str]) -> Iterator[Replica]:
    data = directory / "data" if (directory / "data").is_dir() else directory
    if not data.is_dir():
        raise OptionError(f"There is no directory {directory}.")
    watermarks = _watermarks(data)
    for path in sorted(data.iterdir()):
        match = _PARTITION_DIRECTORY.fullmatch(path.name)
        if path.is_dir() and match is not None and match[1] in topics:
            place = TopicPartition(match[1], int(match[2]))
            yield Replica(directory.name, *place, watermarks.get(place, -1), directory=str(path))


def _watermarks(data: Path) -> Mapping[TopicPartition, int]:
    try:
        return decode_offsets((data / HIGH_WATERMARKS_FILE).read_bytes())
    except (OSError, CorruptBatch):
        return {}


def behind_brokers(bootstrap: str, topics: list[str], options: Mapping[str, str]) -> list[Replica]:
    """Replicas on every broker that Metadata names for the topics."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    given = {"kafka.bootstrap.servers": bootstrap, **options}
    client = client_settings(Options(given))
    kafka = {key.removeprefix("kafka."): value for key, value in given.items() if key.startswith("kafka.")}
    try:
        metadata = AdminClient({**kafka, "log_level": 0}).list_topics(timeout=30)
    except KafkaException as error:
        raise OptionError(f"The cluster at {bootstrap} does not answer: {error.args[0].str()}.") from None
    replicas = []
    for topic in topics:
        if topic not in metadata.topics:
            raise OptionError(f"There is no topic {topic} in the cluster at {bootstrap}.")
        for index, partition in metadata.topics[topic].partitions.items():
            for number in partition.replicas:
                broker = metadata.brokers.get(number)
                if broker is None:
                    raise OptionError(f"Broker {number}, which has a replica of {topic}-{index}, is down.")
                address = (str(broker.host), int(broker.port))
                watermark = _ask_watermark(client, address, topic, index, number)
                replicas.append(Replica(str(number), topic, index, watermark, address=address, client=client))
    return replicas


def _ask_watermark(
    client: ClientSettings, address: tuple[str, int], topic: str, partition: int, number: int
) -> int:
    """The broker's own value, from a fetch at the end of the log."""
    try:
        with Cluster(client) as cluster, BrokerConnection(*address, client) as connection:
            start = cluster.list_offsets({(topic, partition): EARLIEST})[topic, partition]
            body = fetch_request(
                topic,
                partition,
                start,
                max_bytes=1,
                max_wait_ms=0,
                min_bytes=0,
                read_committed=False,
                rack="",
            )
            response = fetched(connection.call(Api.FETCH, FETCH_VERSION, body))
    except OSError as error:
        raise OptionError(f"Broker {number} at {address[0]}:{address[1]} does not answer: {error}.") from None
    if response.error:
        raise Refused(f"{topic}-{partition} cannot be read on broker {number}", response.error)
    return response.high_watermark
