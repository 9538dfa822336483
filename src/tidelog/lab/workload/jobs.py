"""What one workload process is told: a file of JSON that it is started with.

Owns the format, and the names of records. A process gets everything from its job, so that a new one can take
over after a crash.
"""

import zlib
from pathlib import Path

import msgspec

from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec

PRODUCE, CONSUME, PLAIN = "produce", "consume", "plain"
PLAIN_PRODUCER = "plain"  # its records are an instrument, no part of the load: accounts leave them out

HISTORY_FAILED = 3  # exit code: events are missing, so a new process would not make the account complete


class Job(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    name: str  # of the process: "producer-1"
    bootstrap: str
    topic: str
    partitions: int
    run: str
    mode: str
    clock_offset_ns: int
    directory: str
    number: int = 0  # among those of the same load or group
    incarnation: int = 0  # 0, 1, … after each crash
    starts: tuple[int, ...] = ()  # where the partitions ended before the load
    load: LoadSpec | None = None
    group: ConsumerSpec | None = None

    @property
    def producer(self) -> str:
        """Its name in records; another one after a crash, because sequences begin again."""
        return self.name if self.incarnation == 0 else f"{self.name}.{self.incarnation}"

    @property
    def history(self) -> Path:
        """Appended to by every incarnation."""
        return Path(self.directory) / f"{self.topic}.{self.name}.jsonl"

    @property
    def path(self) -> Path:
        return Path(self.directory) / f"{self.topic}.{self.name}.job"


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line that a process prints a few times a second."""

    counts: list[int]  # acknowledged or consumed, by partition
    ends: list[int]  # exclusive end of what was acknowledged or consumed, by partition
    failed: int = 0
    is_done: bool = False


def write_job(job: Job) -> Path:
    job.path.write_bytes(msgspec.json.encode(job))
    return job.path


def read_job(path: Path) -> Job:
    return msgspec.json.decode(path.read_bytes(), type=Job)


def partition_of(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions
