"""An active controller, its store and its brokers, with time in the test's hands."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tidelog.config import BrokerConfig
from tidelog.controller.controller import SessionTiming
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import (
    HeartbeatAsk,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import TidelogError
from tidelog.replication.election import FOREVER_MS

TOPIC_ID = UUID(int=9)
A, B, C = 1, 2, 3
SESSION_MS, GRACE_MS, TICK_MS = 2000, 100, 50


class Store:
    """Commits at once, unless it is held."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.committed_offset = 0
        self.leader = 0
        self.refusal: TidelogError | None = None
        self.holds = False
        self._held: list[tuple[Sequence[MetadataRecord], Done]] = []

    def submit(self, decide: Decide, done: Done) -> None:
        newest = self.image
        for records, _ in self._held:
            newest = newest.apply(records)
        try:
            if self.refusal is not None:
                raise self.refusal
            self._held.append((decide(newest), done))
        except TidelogError as refusal:
            done(refusal)
            return
        if not self.holds:
            self.commit()

    def commit(self) -> None:
        held, self._held = self._held, []
        for records, done in held:
            self.write(records)
            done(None)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        self.image = self.image.apply(records)
        self.committed_offset += len(records)


class Cluster:
    """A controller, its clock, and brokers that register, beat and fall silent."""

    def __init__(self, **settings: Any) -> None:
        self.store = Store()
        self.controller = ControllerDriver.of(
            self.store, BrokerConfig.parse(settings), SessionTiming(SESSION_MS, GRACE_MS)
        )
        self.now_ms = 1000
        self.controller.activate(self.now_ms)
        self.beating: set[int] = set()
        self.followed_ms = FOREVER_MS  # until when a majority of the controllers has followed this one

    def ask(self, ask: Any) -> Any:
        answers: list[Any] = []
        self.controller.handle(ask, self.now_ms, answers.append)
        assert len(answers) == 1
        return answers[0]

    def register(self, broker: int, run: int = 1, **more: Any) -> RegisterGot:
        wanted = {"directory": UUID(int=broker), "forgot": False, "rack": None, **more}
        got: RegisterGot = self.ask(
            RegisterAsk(broker, UUID(int=100 * broker + run), f"host-{broker}", 9092, **wanted)
        )
        return got

    def beat(self, broker: int, *, leaving: bool = False, offset: int | None = None) -> HeartbeatGot:
        known = self.store.committed_offset if offset is None else offset
        got: HeartbeatGot = self.ask(HeartbeatAsk(broker, self.epoch(broker), known, leaving))
        return got

    def epoch(self, broker: int) -> int:
        return self.store.image.brokers[broker].broker_epoch

    def unfenced(self) -> set[int]:
        return {node.broker_id for node in self.store.image.brokers.values() if not node.fenced}

    def come(self, *brokers: int) -> None:
        for broker in brokers:
            self.register(broker)
            self.beat(broker)
            self.beating.add(broker)

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += TICK_MS
            for broker in self.beating:
                self.beat(broker)
            self.controller.tick(self.now_ms, self.followed_ms)
            self.controller.keep_in_order(self.now_ms)

    def partition(self, index: int = 0) -> PartitionImage:
        return self.store.image.topics["t"].partitions[index]

    def join(self, *members: int, index: int = 0) -> InSyncGot:
        now = self.partition(index)
        proposal = InSyncProposal(
            now.leader,
            self.epoch(now.leader),
            TOPIC_ID,
            index,
            now.leader_epoch,
            now.partition_epoch,
            members,
        )
        got: InSyncGot = self.ask(InSyncAsk(proposal))
        return got
