"""What may hold a broker's event loop: one function per operation, each on a running cluster under load.

Owns how each operation is brought about. That its effect was there before it returns is part of it: what
comes later would be counted for the next one.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cramjam
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from bench import wire
from bench.cluster import ClusterServer
from bench.load.client import LoadProcess
from bench.load.job import Job
from bench.load.raw import Connection, first_write
from bench.process import BenchError, wait_until
from bench.servers import Topics

MANY = "bench-many"
COMPACTED, RECOMPRESSED, COLD = "bench-compacted", "bench-recompressed", "bench-cold"
ZSTD = 4
BATCHES = 10  # of each kind that is opened
COLD_BATCH_BYTES = 1_000_000
SETTLE_SECONDS = 2.0
MEMBERS = 50

Operation = Callable[["Field"], None]


class Field:
    """The cluster that operations work on."""

    def __init__(self, cluster: ClusterServer, partitions: int, cold_mb: int) -> None:
        self.cluster = cluster
        self.partitions = partitions  # of the large topic
        self.cold_batches = cold_mb * 1_000_000 // COLD_BATCH_BYTES
        self.topics = Topics(cluster, 3)
        self.load = LoadProcess()

    @contextmanager
    def leader(self, topic: str) -> Iterator[Connection]:
        """A connection with the leader of the topic's first partition."""
        leader = self.cluster.partitions(topic)[0].leader
        connection = Connection(self.cluster.members[leader].port)
        with connection.socket:
            yield connection

    def close(self) -> None:
        self.load.stop()


def rest(field: Field) -> None:
    """Checkpoints, snapshots of the metadata, looks at every log."""
    time.sleep(2 * SETTLE_SECONDS)


def try_to_create(field: Field) -> None:
    wanted = [NewTopic(f"{MANY}-{name}", field.partitions, replication_factor=3) for name in "ab"]
    for each in wanted:
        field.topics.admin.create_topics([each], validate_only=True)[each.topic].result(timeout=60)


def create(field: Field) -> None:
    wanted = NewTopic(MANY, field.partitions, replication_factor=3, config={"file.delete.delay.ms": "100"})
    try:
        created = field.topics.admin.create_topics([wanted], operation_timeout=60, request_timeout=180)
        created[MANY].result(timeout=200)
    except KafkaException as error:
        raise BenchError(f"{MANY} could not be created: {error}") from error
    _await_partitions(field)


def _await_partitions(field: Field) -> None:
    def complete() -> bool:
        found = field.topics.admin.list_topics(MANY, timeout=30).topics[MANY].partitions
        whole = [each for each in found.values() if each.leader >= 0 and len(each.isrs) == 3]
        return len(whole) == field.partitions

    wait_until(complete, 300, f"all replicas of {MANY}", pause=0.5)


def ask_for_metadata(field: Field) -> None:
    for _ in range(3):
        for member in field.cluster.members.values():
            connection = Connection(member.port)
            with connection.socket:
                connection.ask(wire.request(wire.METADATA, wire.METADATA_VERSION, 0, b"\xff\xff\xff\xff\0"))


def describe(field: Field) -> None:
    for number in range(3):
        field.topics.admin.list_topics(MANY, timeout=60)
        field.topics.admin.list_offsets(_first_offsets(number * 100))  # a few hundred at once


def ask_for_everything(field: Field) -> None:
    """The end offset of every partition, the settings of every topic, a write to every partition: each in one
    request. A broker answers for those it does not lead as well.
    """
    now_ms = int(time.time() * 1000)
    partitions = range(field.partitions)
    asked = [
        wire.list_offsets_request(MANY, partitions),
        wire.describe_configs_request([MANY, *(f"{MANY}-{number}" for number in range(field.partitions))]),
        wire.produce_request_to_many(MANY, partitions, wire.batch_of(b"x" * 100, 1, now_ms), acks=1),
    ]
    for member in field.cluster.members.values():
        connection = Connection(member.port)
        with connection.socket:
            for request in asked:
                connection.ask(request)


def _first_offsets(start: int) -> dict[Any, Any]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    latest: Callable[[], OffsetSpec] = OffsetSpec.latest
    return {TopicPartition(MANY, start + each): latest() for each in range(100)}


def keyed_records(count: int, value_size: int) -> bytes:
    """Records with a key each and values that compress well."""
    out = bytearray()
    for delta in range(count):
        key = b"%08d" % delta
        value = (b"%d " % delta) * (value_size // (len(str(delta)) + 1))
        parts = wire.varint(len(key)) + key + wire.varint(len(value)) + value
        body = b"\x00" + wire.varint(0) + wire.varint(delta) + parts + wire.varint(0)
        out += wire.varint(len(body)) + body
    return bytes(out)


def _zstd_batch(count: int, value_size: int) -> bytes:
    payload = bytes(cramjam.zstd.compress(keyed_records(count, value_size)))
    return wire.record_batch(payload, count, int(time.time() * 1000), attributes=ZSTD)


def write_compressed(field: Field) -> None:
    """To a compacted topic, which must look for a key in every record: 100,000 records a batch."""
    field.topics.create(COMPACTED, 1, {"cleanup.policy": "compact", "max.message.bytes": "10000000"})
    _send(field, COMPACTED, _zstd_batch(100_000, 60))


def write_recompressed(field: Field) -> None:
    """To a topic with a codec of its own: about 8 MB a batch before compression."""
    field.topics.create(RECOMPRESSED, 1, {"compression.type": "gzip", "max.message.bytes": "10000000"})
    _send(field, RECOMPRESSED, _zstd_batch(8_000, 1_000))


def _send(field: Field, topic: str, batch: bytes) -> None:
    request = wire.produce_request(topic, 0, batch, acks=-1)
    with field.leader(topic) as connection:
        first_write(connection, request)
        for _ in range(BATCHES):
            connection.socket.sendall(request)
        for _ in range(BATCHES):
            # A loop that is held for too long loses its leadership; the histogram tells.
            error = wire.produce_error(bytes(connection.receive()))
            if error and error not in wire.NOT_READY_YET:
                raise BenchError(f"a write to {topic} was refused with error code {error}")


def write_cold(field: Field) -> None:
    field.topics.create(COLD, 1)
    batch = wire.batch_of(b"x" * 1000, COLD_BATCH_BYTES // 1010, int(time.time() * 1000))
    request = wire.produce_request(COLD, 0, batch, acks=1)
    with field.leader(COLD) as connection:
        first_write(connection, request)
        for _ in range(field.cold_batches - 1):
            if error := wire.produce_error(bytes(connection.ask(request))):
                raise BenchError(f"a write to {COLD} was refused with error code {error}")


def restart(field: Field) -> None:
    """All brokers, so that nothing they hold was checked by the process that serves it."""
    field.cluster.stop()
    for data in field.cluster.data:
        _drop_from_memory(data)
    field.cluster.start()


def _drop_from_memory(data: Path) -> None:
    for path in data.glob(f"{COLD}-0/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_cold(field: Field) -> None:
    """From the middle and from the start, with answers of up to 3 MB; twice from the middle."""
    with field.leader(COLD) as connection:
        middle = field.cold_batches // 2 * (COLD_BATCH_BYTES // 1010)
        for offset in (middle, middle, 0):
            for _ in range(5):
                answer = connection.ask(wire.fetch_request(COLD, 0, offset, 3_000_000))
                error, _, size = wire.fetch_records(answer)
                if error:
                    raise BenchError(f"a fetch from {COLD} was refused with error code {error}")
                offset = max(wire.end_offset(answer[len(answer) - size :]), offset)


def kill(field: Field) -> None:
    field.cluster.signal(3, signal.SIGKILL)
    field.cluster.await_end(3)

    def led_by_others() -> bool:
        found = field.topics.admin.list_topics(MANY, timeout=30).topics[MANY].partitions
        return all(each.leader in (1, 2) for each in found.values())

    wait_until(led_by_others, 60, "other leaders", pause=0.5)


def come_back(field: Field) -> None:
    field.cluster.launch_one(3)
    field.cluster.wait_ready()
    _await_partitions(field)


def rebalance(field: Field) -> None:
    topic = "bench-groups"
    field.topics.create(topic, 200)
    field.load.run(
        Job(
            kind="rebalance", client="groups", bootstrap=field.cluster.bootstrap,
            broker_pids=field.cluster.pids, topic=topic, value_size=1, partitions=200, count=MEMBERS,
        )
    )  # fmt: skip


def delete_large(field: Field) -> None:
    field.topics.delete(COLD)


def delete_many(field: Field) -> None:
    field.topics.admin.delete_topics([MANY], operation_timeout=60)[MANY].result(timeout=120)
    wait_until(lambda: not field.topics.has_files(MANY), 120, f"the removal of {MANY}'s files", pause=0.5)


OPERATIONS: dict[str, Operation] = {
    "load alone": rest,
    "write compressed to compacted": write_compressed,
    "write recompressed": write_recompressed,
    "write to be read cold": write_cold,
    "restart": restart,
    "read cold": read_cold,
    "delete large partition": delete_large,
    "group of 50 joins and leaves": rebalance,
    "try to create partitions": try_to_create,
    "create partitions": create,
    "many partitions at rest": rest,
    "metadata of everything": ask_for_metadata,
    "describe": describe,
    "requests with every partition": ask_for_everything,
    "kill a broker": kill,
    "broker comes back": come_back,
    "delete partitions": delete_many,
}
