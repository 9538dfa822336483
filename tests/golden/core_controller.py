"""The controller over a metadata log that is a list: see :mod:`core_machines`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from core_machines import Driver
from datadriven import told

from tidelog.config import BrokerConfig
from tidelog.controller import configs, topics
from tidelog.controller.controller import Controller, SessionTiming
from tidelog.controller.effects import Effects, Submit
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import (
    ControllerAsk,
    HeartbeatAsk,
    InSyncAsk,
    OfflineAsk,
    RegisterAsk,
)
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, TidelogError

TOPIC, TOPIC_ID = "t", UUID(int=7)
TICK_MS = 100
Held = tuple[Submit, Any, Sequence[MetadataRecord]]


class ControllerDriver(Driver):
    """What is decided is committed at once, unless ``hold`` was said before."""

    shown = ("active", "_deadlines")

    def __init__(self) -> None:
        super().__init__()
        self.config = BrokerConfig.parse({"node.id": 9})
        self.rules = Rulebook(self.config)
        self.image = self.decided = ClusterImage()
        self.committed_offset = 0
        self.controller = Controller(self, self.config, SessionTiming(session_ms=2000, grace_ms=100))
        self._is_held = False
        self._held: list[Held] = []
        self._token = 0

    @property
    def machine(self) -> Controller:
        return self.controller

    # --- effects --------------------------------------------------------------------------------------------

    def tell(self, result: Effects | None) -> Iterator[str]:
        for effect in result or ():
            yield told(effect)
            if isinstance(effect, Submit):
                yield from self._submit(effect)

    def _submit(self, effect: Submit) -> Iterator[str]:
        copy = self.controller.copied()
        try:
            records, verdict = self.controller.decide(effect.decision, self.decided)
        except TidelogError as refusal:
            code = refusal.code
            yield f"  refused {code.name}"
            yield from self.outcome(lambda each: each.committed(effect, None, code))
            return
        assert copy.decide(effect.decision, self.decided) == (records, verdict)
        yield from (f"  write {told(record)}" for record in records)
        self.decided = self.decided.apply(records)
        self._held.append((effect, verdict, records))
        if not self._is_held:
            yield from self.do_commit()

    def do_hold(self) -> Iterable[str]:
        self._is_held = True
        return ()

    def do_commit(self) -> Iterator[str]:
        self._is_held = False
        held, self._held = self._held, []
        for effect, verdict, records in held:
            yield from self._commit(effect, verdict, records)

    def _commit(self, effect: Submit, verdict: Any, records: Sequence[MetadataRecord]) -> Iterator[str]:
        self.image = self.image.apply(records)
        self.committed_offset += len(records)
        return self.outcome(lambda each: each.committed(effect, verdict, ErrorCode.NONE))

    def _write(self, records: Sequence[MetadataRecord]) -> Iterator[str]:
        """Decided elsewhere: by a request of a client."""
        yield from (f"  write {told(record)}" for record in records)
        self.image = self.decided = self.decided.apply(records)
        self.committed_offset += len(records)

    def do_pass(self, ms: int) -> Iterator[str]:
        """The clock ticks."""
        for _ in range(0, ms, TICK_MS):
            self.now_ms += TICK_MS
            yield from self.outcome(lambda each: each.tick(self.now_ms, self.now_ms))

    # --- brokers --------------------------------------------------------------------------------------------

    def _ask(self, ask: ControllerAsk) -> Iterator[str]:
        self._token += 1
        token = self._token
        return self.outcome(lambda each: each.handle(ask, self.now_ms, token))

    def do_register(
        self, broker: int, run: int = 1, disk: int = 0, forgot: bool = False, known_epoch: int | None = None
    ) -> Iterator[str]:
        """``run``: which process of the broker it is; ``disk``: 0 for the one that it always had."""
        directory = UUID(int=disk or broker)
        process = UUID(int=100 * broker + run)
        return self._ask(
            RegisterAsk(
                broker, process, f"host-{broker}", 9092, None, forgot, directory, known_epoch=known_epoch
            )
        )

    def do_heartbeat(
        self, broker: int, leaving: bool = False, offset: int | None = None, epoch: int | None = None
    ) -> Iterator[str]:
        known = self.committed_offset if offset is None else offset
        broker_epoch = self.image.brokers[broker].broker_epoch if epoch is None else epoch
        return self._ask(HeartbeatAsk(broker, broker_epoch, known, leaving))

    def do_propose(
        self, members: tuple[int, ...], leader_epoch: int | None = None, partition_epoch: int | None = None,
        sealed: bool = False, elected: int | None = None,
    ) -> Iterator[str]:  # fmt: skip
        """The leader's proposal; the epochs are the present ones where nothing else is said. ``elected``: who
        was voted in, where the replicas vote.
        """
        now = self._partition
        leader = now.leader if elected is None else elected
        proposal = InSyncProposal(
            leader,
            self.image.brokers[leader].broker_epoch,
            TOPIC_ID,
            0,
            now.leader_epoch if leader_epoch is None else leader_epoch,
            now.partition_epoch if partition_epoch is None else partition_epoch,
            members,
            (-1,) * len(members) if elected is not None else (),
            elected=elected is not None,
            sealed=sealed,
        )
        return self._ask(InSyncAsk(proposal))

    def do_offline(self, broker: int, healed: bool = False) -> Iterator[str]:
        epoch = self.image.brokers[broker].broker_epoch
        return self._ask(OfflineAsk(broker, epoch, ((TOPIC_ID, 0),), healed))

    @property
    def _partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    # --- clients --------------------------------------------------------------------------------------------

    def do_topic(self, replicas: tuple[int, ...], mode: str = "isr", min_in_sync: int = 0) -> Iterator[str]:
        """A topic with one partition."""
        settings = {"replication.mode": mode}
        if min_in_sync:
            settings["min.insync.replicas"] = str(min_in_sync)
        wanted = NewTopic(TOPIC, assignments={0: replicas}, configs=settings)
        return self._write([topics.create(self.decided, wanted, self.config, TOPIC_ID)])

    def do_mode(self, mode: str) -> Iterator[str]:
        wanted: Mapping[str, str] = {**self.decided.topics[TOPIC].configs, "replication.mode": mode}
        return self._write(configs.change_topic(self.decided, TOPIC, wanted, self.rules))
