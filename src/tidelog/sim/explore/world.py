"""A small world: a few nodes, the controllers, messages in flight, and what was observed so far.

A visited world is never changed; a step works on a child of it.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.broker.node.ports import Asked, NodeMessage
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.messages import ControllerGot, RegisterAsk, RegisterGot
from tidelog.controller.records import TopicConfigChanged, TopicCreated
from tidelog.replication.messages import LeaderBegan, StandNow, TailAsk, TailGot, VoteRequested, VoteResponded
from tidelog.sim.explore.checks import Seen
from tidelog.sim.explore.controller import SmallController
from tidelog.sim.explore.disk import Disk
from tidelog.sim.explore.frozen import Frozen, Table
from tidelog.sim.explore.node import CONTROLLER, TOPIC, TOPIC_ID, SmallNode

SILENCE_MS = 10_000
"""Longer than every timeout."""

_BETWEEN_NODES = (VoteRequested, VoteResponded, LeaderBegan, StandNow, TailAsk, TailGot)
_DISKS = 1000


class Flight(NamedTuple):
    """A message to or from the controllers in flight."""

    to: int
    message: Asked | ControllerGot


class Surroundings:
    """What all worlds of one search share."""

    def __init__(self, *, instant: bool) -> None:
        self.instant = instant  # Whether messages to and from the controllers have no delay.
        self.controller = SmallController(BrokerConfig.parse({"node.id": CONTROLLER}))
        self.table = Table()


class World:
    __slots__ = ("_mail", "around", "budgets", "clock_ms", "flights", "image", "nodes", "seen", "unheard")

    def __init__(self, around: Surroundings, budgets: dict[str, int]) -> None:
        self.around = around
        self.budgets = budgets
        self.image = ClusterImage()
        self.nodes: dict[int, Frozen] = {}
        self.flights: tuple[Flight, ...] = ()
        self.unheard: dict[int, tuple[ClusterImage, ...]] = {}  # metadata on its way to each node
        self.seen = Seen()
        self.clock_ms = SILENCE_MS
        self._mail: list[tuple[int, NodeMessage]] = []  # sent in this step

    def child(self) -> "World":
        new = World.__new__(World)
        new.around, new.image, new.flights = self.around, self.image, self.flights
        new.seen, new.clock_ms, new._mail = self.seen, self.clock_ms, []
        new.budgets, new.nodes, new.unheard = dict(self.budgets), dict(self.nodes), dict(self.unheard)
        return new

    def fingerprint(self) -> int:
        image = self.around.table.print_of
        flights = self.flights
        parts: Hashable = (
            tuple([node.printed for node in self.nodes.values()]),
            self.clock_ms % SILENCE_MS,
            image(self.image),
            frozenset([(flight, flights.count(flight)) for flight in flights]),
            tuple([(number, tuple(map(image, images))) for number, images in self.unheard.items() if images]),
            tuple(self.budgets.values()),
            self.seen,
        )
        return hash(parts)

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[int]:
        return [number for number, frozen in self.nodes.items() if frozen.node is not None]

    def node(self, number: int) -> SmallNode:
        """Read-only."""
        node = self.nodes[number].node
        if node is None:
            raise LookupError(f"node {number} does not run")
        return node

    def rows(self, number: int) -> tuple[bytes, ...]:
        """The log of a node, running or not."""
        return self.nodes[number].disk.rows

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def spend(self, budget: str) -> None:
        self.budgets[budget] -= 1

    # --- nodes ----------------------------------------------------------------------------------------------

    def call(self, number: int, name: str, *arguments: Any) -> Any:
        """A step of a node. Raises its refusal."""
        before = self.nodes[number]
        outcome = self.around.table.call(before, name, arguments)
        self.nodes[number] = outcome.after
        if len(outcome.after.disk.rows) < len(before.disk.rows) and outcome.after.has_dropped_damage(before):
            self.seen = self.seen.lost_by(number)
        self._mail += outcome.sent
        if outcome.refusal is not None:
            raise outcome.refusal
        return outcome.result

    def pass_silence(self, clock_ms: int) -> None:
        """Time passes, for all nodes."""
        self.clock_ms = clock_ms
        for number, frozen in self.nodes.items():
            self.nodes[number] = self.around.table.later(frozen, clock_ms)

    def found(self, numbers: tuple[int, ...], mode: str, configs: dict[str, str]) -> None:
        """A cluster with one topic."""
        for number in numbers:
            disk = Disk(UUID(int=_DISKS + number))
            self.nodes[number] = self.around.table.freeze(None, disk, self.clock_ms)
            self.start(number)
            self.decided(self.around.controller.unfence(self.image, number))
        self.commit([TopicCreated(TOPIC, TOPIC_ID, [list(numbers)], configs, mode=mode)])

    def start(self, number: int) -> None:
        """A process starts and registers. Without delays, it is unfenced at once."""
        disk = self.nodes[number].disk
        incarnation = UUID(int=(self.image.last_broker_epoch + 1) * _DISKS + number)
        ask = RegisterAsk(number, incarnation, f"node{number}", 9092, None, False, disk.identity)
        image, answers = self.around.controller.handle(self.image, ask)
        (got,) = [answer for answer in answers if isinstance(answer, RegisterGot)]
        self.nodes[number] = self.around.table.started(self.nodes[number], ask, got)
        self.unheard[number] = ()
        self.decided(image)
        if self.around.instant:
            self.settle()
            self.decided(self.around.controller.unfence(self.image, number))

    def kill(self, number: int) -> None:
        self.nodes[number] = self.around.table.killed(self.nodes[number])
        self.unheard.pop(number, None)
        if self.around.instant:
            self.decided(self.around.controller.fence(self.image, number))

    def replace_disk(self, number: int) -> None:
        """Of a node that does not run."""
        disk = Disk(UUID(int=self.nodes[number].disk.identity.int + _DISKS))
        self.nodes[number] = self.around.table.freeze(None, disk, self.clock_ms)
        self.seen = self.seen.lost_by(number)

    def remove_log(self, number: int) -> None:
        """Of a node that does not run: its directory and all in it."""
        self.nodes[number] = self.around.table.without_log(self.nodes[number])
        self.seen = self.seen.lost_by(number)

    # --- the controllers ------------------------------------------------------------------------------------

    def decided(self, image: ClusterImage) -> None:
        """The controllers have committed something."""
        if image is self.image:
            return
        self.image = self.around.table.image(image)
        for number in self.running:
            self.unheard[number] = (*self.unheard.get(number, ()), self.image)

    def commit(self, records: Sequence[Any]) -> None:
        self.decided(self.around.controller.commit(self.image, records))

    def configure(self, changes: dict[str, str | None]) -> None:
        """An operator changes the topic; the controllers take the possible steps at once."""
        self.commit([TopicConfigChanged(TOPIC_ID, changes)])
        self.decided(self.around.controller.settle(self.image))

    def hear(self, number: int) -> None:
        """The next metadata reaches a node."""
        image, *later = self.unheard[number]
        self.unheard[number] = tuple(later)
        self.call(number, "hear", image)

    def handle(self, asked: Asked) -> list[ControllerGot]:
        image, answers = self.around.controller.handle(self.image, asked.ask)
        self.decided(image)
        return answers

    # --- the end of a step ----------------------------------------------------------------------------------

    def settle(self, reach: frozenset[int] | None = None) -> None:
        """Sent messages leave. ``reach``: nodes that hear each other; None: all that run."""
        while True:
            if self._mail:
                mail, self._mail = self._mail, []
                for to, message in mail:
                    self._carry(to, message, reach)
            elif not (self.around.instant and self._hear_all()):
                return

    def _carry(self, to: int, message: NodeMessage, reach: frozenset[int] | None) -> None:
        if isinstance(message, Asked):
            if self.around.instant:
                for answer in self.handle(message):
                    if message.sender in self.running:
                        self.call(message.sender, "told", answer)
            else:
                self.flights = (*self.flights, Flight(CONTROLLER, message))
        elif isinstance(message, _BETWEEN_NODES) and to in self.running:
            self._exchange(to, message, reach)

    def _exchange(self, to: int, message: Any, reach: frozenset[int] | None) -> None:
        if reach is None or {to, message.sender} <= reach:
            self.call(to, "receive", message)

    def _hear_all(self) -> bool:
        late = [number for number in self.running if self.unheard.get(number)]
        for number in late:
            self.hear(number)
        return bool(late)
