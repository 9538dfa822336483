"""A node that is in no cluster, and that others can authenticate: it sends anything to anybody, in its own
name.

Who says to be another node is refused before its messages reach a replica or the controller
(``runtime/peers``), so a hostile node speaks for itself here, too. Each run has its usual faults beside it.
Every promise holds, and once it is silent the cluster is as healthy as without it.

Known gap: it may not name the last epochs that there are, after which no leader could be elected. Whoever
others authenticate as a node can end a quorum (docs/security.md#what-is-protected).
"""

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.node.ports import Asked
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import HeartbeatAsk, InSyncAsk, OfflineAsk
from tidelog.replication.messages import (
    FetchAsk,
    FetchItem,
    LeaderBegan,
    SnapshotAsk,
    StandNow,
    TailAsk,
    VoteRequested,
)
from tidelog.replication.votes import Tail, VoteRequest
from tidelog.sim.run import MODES, Simulation, prepare
from tidelog.types import METADATA_TOPIC_ID, SnapshotId

pytestmark = pytest.mark.slow

SEED = 1
HOSTILE = 99
PAUSE_MS = (1.0, 30.0)
NUMBERS = (-1, 0, 1, 2, 7, 1000, 100_000)  # of epochs
OFFSETS = (-1, 0, 1, 50, 10_000, (1 << 62) - 1)
METADATA = METADATA_TOPIC_ID, 0


class Hostile:
    """Draws everything from one seed, and nothing from the seed of the run."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self._simulation = simulation
        self._chance = random.Random(seed)
        self._generation = 0
        self.sent = 0
        simulation.world.after(1.0, self._go_on)

    def _go_on(self) -> None:
        network, machines = self._simulation.cluster.network, self._simulation.cluster.machines
        if self._simulation.perturbations.active:
            network.send(HOSTILE, self._chance.choice(sorted(machines)), self._message())
            self.sent += 1
        self._simulation.world.after(self._chance.uniform(*PAUSE_MS), self._go_on)

    def _key(self) -> tuple[UUID, int]:
        """Of a partition that there is, or of none."""
        topics = self._simulation.cluster.checker.metadata.newest.topics.values()
        known = [(topic.topic_id, index) for topic in topics for index in range(len(topic.partitions))]
        return self._chance.choice([METADATA, METADATA, *known, (UUID(int=77), 0)])

    def _number(self) -> int:
        return self._chance.choice(NUMBERS)

    def _offset(self) -> int:
        return self._chance.choice(OFFSETS)

    def _message(self) -> Any:
        kinds: tuple[Callable[[], Any], ...] = (
            self._vote, self._began, self._stand, self._tail, self._snapshot, self._fetch, self._fetch,
            self._heartbeat, self._in_sync, self._in_sync, self._offline,
        )  # fmt: skip
        return self._chance.choice(kinds)()

    def _vote(self) -> VoteRequested:
        pre = self._chance.random() < 0.5
        request = VoteRequest(self._number(), HOSTILE, Tail(self._number(), self._offset()), pre)
        return VoteRequested(HOSTILE, self._key(), request)

    def _began(self) -> LeaderBegan:
        return LeaderBegan(HOSTILE, self._key(), self._number())

    def _stand(self) -> StandNow:
        return StandNow(HOSTILE, self._key(), self._number())

    def _tail(self) -> TailAsk:
        return TailAsk(HOSTILE, self._key(), self._number())

    def _snapshot(self) -> SnapshotAsk:
        snapshot = SnapshotId(self._offset(), self._number())
        return SnapshotAsk(HOSTILE, self._key(), self._number(), None, snapshot, self._offset(), 1 << 16)

    def _fetch(self) -> FetchAsk:
        self._generation += 1
        items = [
            FetchItem(
                self._key(), self._number(), self._offset(), self._number(), self._offset(), self._offset()
            )
            for _ in range(self._chance.randrange(4))
        ]
        since = self._chance.choice((0, self._generation - 1))
        return FetchAsk(
            HOSTILE, self._number(), self._generation, since, items, [self._key()],
            self._chance.choice((0, 300)), 1 << 16,
        )  # fmt: skip

    def _heartbeat(self) -> Asked:
        return Asked(HOSTILE, HeartbeatAsk(HOSTILE, self._number(), self._offset(), leaving=True))

    def _in_sync(self) -> Asked:
        topic_id, index = self._key()
        topics = self._simulation.cluster.checker.metadata.newest.topics.values()
        epochs = [
            (topic.partitions[index].leader_epoch, topic.partitions[index].partition_epoch)
            for topic in topics
            if topic.topic_id == topic_id
        ]
        epoch, partition_epoch = epochs[0] if epochs else (self._number(), self._number())
        members = tuple(sorted(self._simulation.cluster.machines))[:1]
        proposal = InSyncProposal(
            HOSTILE, self._number(), topic_id, index, epoch, partition_epoch, (*members, HOSTILE),
            elected=self._chance.random() < 0.5, sealed=self._chance.random() < 0.2,
        )  # fmt: skip
        return Asked(HOSTILE, InSyncAsk(proposal))

    def _offline(self) -> Asked:
        return Asked(HOSTILE, OfflineAsk(HOSTILE, self._number(), (self._key(), self._key())))


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"controllers"}))
def test_every_promise_holds_beside_it(mode: str) -> None:
    simulation = prepare(mode, SEED, {})
    assert isinstance(simulation, Simulation)
    hostile = Hostile(simulation, SEED)
    simulation.run()
    assert hostile.sent > 500
