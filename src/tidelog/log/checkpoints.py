"""The small text files of a data directory, in Kafka's formats. Text in, values out; no files here.

Kafka's checkpoints have no checksum, and a high watermark with one wrong digit would show uncommitted
records. So the last line of each file names a partition that does not exist, with a CRC of the lines before
it instead of an offset. Kafka and earlier versions of Tidelog read it as a deleted partition. A file without
it is trusted.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from tidelog.errors import CorruptBatch
from tidelog.types import TopicPartition

RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARKS_FILE = "replication-offset-checkpoint"
REPLICAS_FILE = "replica-checkpoint"  # not Kafka's
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

_OFFSETS_VERSION = 0
_CHECKSUM = "__checksum 0 "


def _encode(rows: Iterable[str], checksum: Callable[[int], str] = str) -> bytes:
    """``checksum`` gives the CRC the form of the values in the other lines."""
    lines = list(rows)
    text = "\n".join([str(_OFFSETS_VERSION), str(len(lines) + 1), *lines, ""])
    return f"{text}{_CHECKSUM}{checksum(crc32c(text.encode()))}\n".encode()


def _as_note(crc: int) -> str:
    return f"{UUID(int=crc).hex} unsure"


def _rows(text: bytes) -> list[str]:
    """Raises ``ValueError`` if the checksum does not match."""
    version, count, *rows = text.decode().splitlines()
    if int(version) != _OFFSETS_VERSION or int(count) != len(rows):
        raise ValueError
    if rows and rows[-1].startswith(_CHECKSUM):
        covered = text[: text.rindex(_CHECKSUM.encode())]
        crc = crc32c(covered)
        if rows.pop()[len(_CHECKSUM) :] not in (str(crc), _as_note(crc)):
            raise ValueError
    return rows


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Version, number of lines, then topic, partition and offset in each line."""
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def decode_offsets(text: bytes) -> dict[TopicPartition, int]:
    """Raises :class:`CorruptBatch` if the text is not a complete checkpoint."""
    offsets = {}
    try:
        for line in _rows(text):
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError:
        raise CorruptBatch("the offset checkpoint is damaged") from None
    return offsets


class ReplicaNote(NamedTuple):
    """What is remembered of a replica whose log an earlier process had open."""

    topic_id: UUID
    log_confirmed: bool  # Whether the log below the checkpointed high watermark was confirmed.


def encode_replicas(notes: Mapping[TopicPartition, ReplicaNote]) -> bytes:
    """As :func:`encode_offsets`, with the topic's id and ``sure`` or ``unsure`` instead of an offset."""
    rows = [
        f"{topic} {partition} {note.topic_id.hex} {'sure' if note.log_confirmed else 'unsure'}"
        for (topic, partition), note in sorted(notes.items())
    ]
    return _encode(rows, _as_note)


def decode_replicas(text: bytes) -> dict[TopicPartition, ReplicaNote]:
    """Raises :class:`CorruptBatch` if the text is not a complete checkpoint."""
    notes = {}
    try:
        for line in _rows(text):
            topic, partition, topic_id, state = line.split()
            notes[TopicPartition(topic, int(partition))] = ReplicaNote(UUID(hex=topic_id), state == "sure")
    except ValueError:
        raise CorruptBatch("the replica checkpoint is damaged") from None
    return notes


def encode_id(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_id(text: str) -> UUID:
    """Raises ``ValueError`` if it is not one."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def encode_topic_id(topic_id: UUID) -> bytes:
    """``partition.metadata``: the id in the 22 characters of URL-safe base64 that Kafka writes, and a
    checksum in a line that Kafka does not read.
    """
    checksum = crc32c(topic_id.bytes)
    return f"version: 0\ntopic_id: {encode_id(topic_id)}\nchecksum: {checksum}\n".encode()


def decode_topic_id(text: bytes) -> UUID:
    """Raises :class:`CorruptBatch` if the text has no id or the checksum does not match."""
    try:
        fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if line)
        topic_id = decode_id(fields["topic_id"])
        if int(fields.get("checksum", crc32c(topic_id.bytes))) != crc32c(topic_id.bytes):
            raise ValueError
        return topic_id
    except (ValueError, KeyError):
        raise CorruptBatch("partition.metadata holds no topic id") from None


def encode_properties(values: Mapping[str, str]) -> bytes:
    """A Java properties file, as far as ``meta.properties`` needs it."""
    return "".join(f"{key}={value}\n" for key, value in sorted(values.items())).encode()


def decode_properties(text: bytes) -> dict[str, str]:
    values = {}
    for line in text.decode(errors="replace").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            values[key.strip()] = value.strip()
    return values


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()
