"""What the lab found out, as plain data: it is saved as JSON, and reports are drawn from it alone.

Owns names and units. Times of a time line are seconds since the load of the round was steady.
"""

from typing import Any

import msgspec

KEPT, BROKEN, ALLOWED = "kept", "broken", "allowed loss"
NOT_RUN = "not run"


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Of acknowledged writes, in milliseconds; None: there were none."""

    p50: float | None = None
    p99: float | None = None
    p999: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one topic in one round."""

    acknowledged: int = 0
    failed: int = 0  # the client gave up; the record may be there or not
    received: int = 0
    lost: int = 0  # acknowledged and missing at the end
    unacknowledged: int = 0  # there, though never acknowledged
    doubled: int = 0
    disordered: int = 0
    misplaced: int = 0  # at another offset than acknowledged
    vanished: int = 0  # a consumer read it, and it is gone at the end
    torn_transactions: int = 0  # visible in part
    skipped: int = 0  # acknowledged and there, but a group that read later ones did not get it
    lost_commits: int = 0  # committed offsets of a group that were taken back
    writes_stood_still_s: float = 0.0  # the longest time, in the partition that had the longest
    reads_stood_still_s: float = 0.0  # by a group or by the plain client, whichever is longer
    unserved_reads_s: float = 0.0  # by the plain client
    client_back_off_s: float = 0.0  # of the time without writes, as far as the client only waited
    redundant_after_s: float | None = None  # after the last fault was healed: all replicas in sync
    records_per_s: float = 0.0
    before: Latency = Latency()
    during: Latency = Latency()
    after: Latency = Latency()
    broker_cpu_s: float = 0.0  # all brokers together
    broker_rss_mb: float = 0.0  # the largest
    harmed: tuple[int, ...] = ()  # partitions with records that are lost, gone, skipped or torn
    examples: tuple[str, ...] = ()  # of violations, in words


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A fault on the time line."""

    name: str  # "kill -9 of broker 2 (leader)"
    start_s: float
    end_s: float | None = None


class TimeLine(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of equal length, one entry per ``step_s``, of one topic in one round."""

    step_s: float = 0.1
    start_s: float = 0.0
    acknowledged: tuple[int, ...] = ()
    received: tuple[int, ...] = ()
    latency_ms: tuple[float | None, ...] = ()  # the worst in the step
    leader: tuple[int, ...] = ()  # of partition 0; -1: none
    faults: tuple[Band, ...] = ()


class Round(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    verdict: str
    figures: Figures
    time_line: TimeLine = TimeLine()
    sentence: str = ""
    late_s: float = 0.0  # how late the machine was at worst


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment with one topic's settings on one target."""

    experiment: str
    title: str
    target: str  # "tidelog", "kafka"
    mode: str  # a heading such as "primary-backup, 2 copies"
    topic: str = "records"
    promise: tuple[str, ...] = ()  # what was promised beforehand, one sentence each
    verdict: str = NOT_RUN
    sentence: str = ""  # the verdict in one sentence
    rounds: tuple[Round, ...] = ()
    worst: Figures = Figures()
    median: Figures = Figures()
    settings: dict[str, Any] = {}
    network: str = "none"  # how network faults were made: none, relay, namespaces
    source: str = ""  # the experiment's file
    command: str = ""  # that repeats it


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cpu: str = ""
    cores: int = 0
    memory_gb: float = 0.0
    system: str = ""
    disk: str = ""
    load_average: float = 0.0


class Results(msgspec.Struct, frozen=True, kw_only=True):
    started: str  # ISO 8601
    seconds: float
    is_complete: bool  # False: interrupted, what is there is there
    machine: Machine = Machine()
    versions: dict[str, str] = {}
    command: str = ""
    cells: tuple[Cell, ...] = ()
