"""The options of a writer: those of Spark's Kafka sink, with ``kafka.*`` for the producer's settings.

Owns the existing options, their values and which exclude each other. Picklable: executors get it with their
task.
"""

import hashlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.client.settings import ClientSettings
from tidelog.protocol.codecs import Codec
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
GUARANTEES = (EXACTLY_ONCE, AT_LEAST_ONCE)

OPTIONS = (
    "topic", "includeHeaders", "deliveryGuarantee", "checkpointLocation", "queryName", "path",
    "bootstrap.servers",
)  # fmt: skip

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "-1", "1")

ALL_ACKS = -1
STREAM_TIMEOUT_MS = 900_000


@dataclass(frozen=True, slots=True)
class WriterSettings:
    client: ClientSettings
    topic: str | None  # None: the column says
    includes_headers: bool
    exactly_once: bool
    codec: int
    acks: int
    idempotent: bool
    batch_bytes: int  # of records in one batch, before compression
    memory_bytes: int  # of all open and unsent batches of a task
    request_bytes_max: int
    delivery_timeout_ms: int
    transaction_timeout_ms: int | None  # None: the brokers' limit
    # Which driver, and which checkpoint there, as a short name; empty: it cannot be told. The same in every
    # process of the driver.
    driver: str = ""


def writer_settings(given: Mapping[str, str], *, streaming: bool) -> WriterSettings:
    """The parsed options; :class:`OptionError` names an invalid one."""
    options = Options(given)
    options.refuse_unknown(OPTIONS)
    acks = options.choice("kafka.acks", ACKS, "all")
    idempotent = options.flag("kafka.enable.idempotence", acks != "1")
    guarantee = options.choice(
        "deliveryGuarantee", GUARANTEES, EXACTLY_ONCE if streaming and idempotent else AT_LEAST_ONCE
    )
    _check_together(guarantee, idempotent, acks)
    batch_bytes = options.whole("kafka.batch.size", 256 << 10, least=1 << 10, most=512 << 20)
    return WriterSettings(
        client=client_settings(options),
        topic=options.text("topic") or None,
        includes_headers=options.flag("includeHeaders", True),
        exactly_once=guarantee == EXACTLY_ONCE,
        codec=Codec[options.choice("kafka.compression.type", CODECS, "none").upper()],
        acks=1 if acks == "1" else ALL_ACKS,
        idempotent=idempotent,
        batch_bytes=batch_bytes,
        memory_bytes=options.whole("kafka.buffer.memory", 32 << 20, least=2 * batch_bytes),
        request_bytes_max=options.whole("kafka.max.request.size", 4 << 20, least=1),
        delivery_timeout_ms=options.whole("kafka.delivery.timeout.ms", 120_000, least=1),
        # What a killed driver of a stream leaves open holds back readers for this time. A batch job writes
        # everything in one step, so it needs all the time there is.
        transaction_timeout_ms=options.number(
            "kafka.transaction.timeout.ms", STREAM_TIMEOUT_MS if streaming else None, least=1
        ),
        driver=driver_name(options.text("checkpointLocation")) if streaming else "",
    )


def driver_name(checkpoint: str | None) -> str:
    """Of this driver and one of its checkpoints. Called on the driver: in a worker of a daemon of the JVM."""
    if not checkpoint:
        return ""
    try:
        # "pid (name) state parent ..."; the name may have spaces and parentheses.
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        process = stat.rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        process = ""  # not Linux: drivers of one machine differ by their checkpoints alone
    text = "\n".join((socket.gethostname(), process, checkpoint.rstrip("/")))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_together(guarantee: str, idempotent: bool, acks: str) -> None:
    if guarantee == EXACTLY_ONCE and not idempotent:
        raise OptionError(
            "Option deliveryGuarantee is exactly-once, which needs kafka.enable.idempotence=true; "
            "leave it out or use deliveryGuarantee=at-least-once."
        )
    if idempotent and acks == "1":
        raise OptionError(
            "Option kafka.enable.idempotence is true, which needs kafka.acks=all; allowed: kafka.acks=all."
        )
