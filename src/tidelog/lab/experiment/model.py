"""What an experiment consists of. :mod:`tidelog.lab.experiment.reader` makes it from a TOML file.

Owns names and defaults, nothing else. All times are seconds since the load is steady.
"""

from typing import Any

import msgspec


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers. Numbers 1 to ``brokers``; ``racks`` are dealt out in turn."""

    brokers: int = 3
    racks: tuple[str, ...] = ()
    controllers: int = 0  # of the brokers, how many vote as controllers; 0: as many as usual
    settings: dict[str, Any] = {}  # of every broker


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. ``mode`` is the replication mode; Kafka knows only ``isr``."""

    name: str = "records"
    mode: str = "isr"
    partitions: int = 1
    replicas: int = 3
    settings: dict[str, str] = {}


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Producers of one topic; each is a process of its own."""

    topic: str = "records"
    producers: int = 1
    rate: float = 500.0  # records a second of all producers together; 0: as fast as possible
    size: int = 100  # bytes of a value
    acks: str = "all"
    idempotent: bool = True
    transactional: int = 0  # records per transaction; 0: none
    keys: int = 0  # how many different keys; 0: records go to partitions in turn, without a key
    settings: dict[str, Any] = {}  # of the client (librdkafka)


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group that reads a topic while the faults happen."""

    topic: str = "records"
    group: str = "readers"
    members: int = 1
    committed: bool = True  # read_committed
    settings: dict[str, Any] = {}


class FaultStep(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline. ``on`` and ``between`` select parties by number or role: ``leader``,
    ``follower``, ``followers``, ``controller``, ``controllers``, ``all``, ``clients``, ``2``, or several of
    them (``leader+follower``).
    """

    at: float
    fault: str  # a key of tidelog.lab.faults.catalog.FAULTS
    on: str = "leader"
    between: tuple[str, str] | None = None  # of network faults
    topic: str = ""  # whose leader and followers are meant, or what is administered; "": the first one
    lasts: float | None = None  # until it is healed; None: until the end of the timeline
    parameters: dict[str, Any] = {}


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """What is checked besides the promises of the mode; None: not checked."""

    lost_max: int | None = None  # acknowledged records
    writes_stand_still_max_s: float | None = None
    reads_stand_still_max_s: float | None = None


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A timeline of its own, with a fresh cluster: an experiment with phases is run once for each."""

    name: str
    title: str
    lasts: float = 8.0
    timeline: tuple[FaultStep, ...] = ()


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str  # one line
    cluster: ClusterSpec = ClusterSpec()
    topics: tuple[TopicSpec, ...] = (TopicSpec(),)
    loads: tuple[LoadSpec, ...] = (LoadSpec(),)
    consumers: tuple[ConsumerSpec, ...] = (ConsumerSpec(),)
    timeline: tuple[FaultStep, ...] = ()
    phases: tuple[Phase, ...] = ()  # instead of a timeline
    checks: Checks = Checks()
    rounds: int = 3
    before: float = 2.0  # of steady load, before time 0 of the timeline
    lasts: float = 8.0  # of the timeline
    after: float = 2.0  # of steady load, once everything is healed
    source: str = ""  # the text of the file
