"""Which versions a broker serves, what is said of one that is too old, and requests with topic ids."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tidelog.client import messages_by_id
from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokerTooOld, ClusterUnreachable, TopicReplaced
from tidelog.client.fetching import FetchSettings, PartitionFetcher
from tidelog.client.messages_by_id import id_bytes, id_text
from tidelog.client.reader import compact_string, string, uvarint
from tidelog.client.settings import ClientSettings

ID, OTHER_ID = id_text(bytes(range(16))), id_text(bytes(range(1, 17)))

Ranges = dict[int, tuple[int, int]]
KAFKA_1: Ranges = {
    Api.FETCH: (0, 6),
    Api.LIST_OFFSETS: (0, 2),
    Api.METADATA: (0, 5),
    Api.API_VERSIONS: (0, 1),
}
KAFKA_2_2: Ranges = {
    Api.FETCH: (0, 10),
    Api.LIST_OFFSETS: (0, 5),
    Api.METADATA: (0, 7),
    Api.API_VERSIONS: (0, 2),
}
KAFKA_2_3: Ranges = KAFKA_2_2 | {Api.FETCH: (0, 11)}
KAFKA_2_8: Ranges = KAFKA_2_3 | {Api.FETCH: (0, 12), Api.METADATA: (0, 11)}


class FakeBroker:
    """Answers ApiVersions and Metadata as a broker of some age does, and every Fetch with an error."""

    def __init__(self, ranges: Ranges, topic_ids: Callable[[], str]) -> None:
        self._ranges = ranges
        self._topic_ids = topic_ids
        self.asked: list[tuple[int, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                while size := client.recv(4, socket.MSG_WAITALL):
                    request = client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                    api, version, number = struct.unpack_from(">hhi", request)
                    self.asked.append((api, version))
                    oldest, newest = self._ranges.get(api, (0, -1))
                    if not oldest <= version <= newest:
                        break  # as Kafka does
                    body = self._answer(api, version)
                    client.sendall(struct.pack(">ii", len(body) + 4, number) + body)

    def _answer(self, api: int, version: int) -> bytes:
        if api == Api.API_VERSIONS:
            rows = [struct.pack(">hhh", one, *versions) for one, versions in self._ranges.items()]
            return struct.pack(">hi", 0, len(rows)) + b"".join(rows)
        if api == Api.METADATA:
            return self._metadata_by_id() if version >= 10 else self._metadata()
        invalid_request = 42
        return struct.pack(">ihii", 0, invalid_request, 0, 0)

    def _metadata(self) -> bytes:
        broker = struct.pack(">i", 1) + string("127.0.0.1") + struct.pack(">ih", self.port, -1)
        partition = struct.pack(">hiiiiiiii", 0, 0, 1, 0, 1, 1, 1, 1, 0)
        topic = struct.pack(">h", 0) + string("orders") + b"\0" + struct.pack(">i", 1) + partition
        one = struct.pack(">i", 1)
        return bytes(4) + one + broker + struct.pack(">hi", -1, 1) + one + topic

    def _metadata_by_id(self) -> bytes:
        broker = struct.pack(">i", 1) + compact_string("127.0.0.1") + struct.pack(">i", self.port) + b"\0\0"
        replicas = uvarint(2) + struct.pack(">i", 1)
        partition = struct.pack(">hiii", 0, 0, 1, 0) + replicas + replicas + uvarint(1) + b"\0"
        name = struct.pack(">h", 0) + compact_string("orders") + id_bytes(self._topic_ids())
        topic = name + b"\0" + uvarint(2) + partition + bytes(4) + b"\0"
        header = b"\0"
        return (
            header + bytes(4) + uvarint(2) + broker + b"\0" + bytes(4) + uvarint(2) + topic + bytes(4) + b"\0"
        )


@contextmanager
def broker(ranges: Ranges, topic_ids: Callable[[], str] = lambda: ID) -> Iterator[FakeBroker]:
    running = FakeBroker(ranges, topic_ids)
    yield running
    running.close()


def client(running: FakeBroker) -> Cluster:
    return Cluster(ClientSettings((("127.0.0.1", running.port),)), patience_ms=500)


def test_a_broker_without_topic_ids_is_read_by_names() -> None:
    with broker(KAFKA_2_3) as running, client(running) as cluster:
        assert cluster.topics(["orders"])["orders"].topic_id == ""
        cluster.check_topic_id("orders", ID)  # nothing is known, nothing is refused
        assert running.asked == [(Api.API_VERSIONS, 0), (Api.METADATA, 7)]


@pytest.mark.slow
def test_a_broker_with_topic_ids_names_them() -> None:
    with broker(KAFKA_2_8) as running, client(running) as cluster:
        topic = cluster.topics(["orders"])["orders"]
        assert (topic.topic_id, topic.partitions[0].leader) == (ID, 1)
        cluster.check_topic_id("orders", ID)
        with pytest.raises(TopicReplaced, match=f"its id is {ID}, and the offsets belong to .* {OTHER_ID}"):
            cluster.check_topic_id("orders", OTHER_ID)


def test_a_broker_that_learns_late_of_a_new_topic() -> None:
    answers = iter([OTHER_ID, OTHER_ID])
    with broker(KAFKA_2_8, lambda: next(answers, ID)) as running, client(running) as cluster:
        assert cluster.topics(["orders"])["orders"].topic_id == OTHER_ID
        cluster.check_topic_id("orders", ID)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        (
            KAFKA_1,
            "serves METADATA up to version 5, and a client needs version 7, Kafka 2.1 or newer",
        ),
        (KAFKA_2_2, "serves FETCH up to version 10, and reading needs version 11, Kafka 2.3 or newer"),
    ],
    ids=["1.0", "2.2"],
)
def test_a_broker_that_is_too_old(ranges: Ranges, message: str) -> None:
    with broker(ranges) as running, client(running) as cluster:
        fetcher = PartitionFetcher(cluster, "orders", 0, FetchSettings(), cluster.patience())
        with pytest.raises(BrokerTooOld) as refused:
            fetcher.ask(0)
        assert f"The broker at 127.0.0.1:{running.port} is too old: it {message}." in str(refused.value)


@pytest.mark.slow
def test_a_port_that_closes_every_connection() -> None:
    expected = pytest.raises(ClusterUnreachable, match="another security protocol than PLAINTEXT")
    with broker({}) as running, client(running) as cluster, expected:
        cluster.topics(["orders"])


def test_topic_ids_as_kafka_prints_them() -> None:
    assert id_text(id_bytes("lGPuyIbQTKK6yXYrnGbqDw")) == "lGPuyIbQTKK6yXYrnGbqDw"
    assert id_text(bytes(16)) == ""
    for wrong in ("", "orders", "lGPuyIbQTKK6yXYrnGbqDw==", "lGPuyIbQTKK6yXYrnGbqD!"):
        with pytest.raises(ValueError, match="is not a topic id"):
            id_bytes(wrong)


def test_a_long_name_in_a_flexible_request() -> None:
    name = "t" * 249
    body = messages_by_id.metadata_request([name])
    assert body[17:19] == b"\xfa\x01" and name.encode() in body
