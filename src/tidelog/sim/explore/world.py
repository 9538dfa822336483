"""A small world: a few nodes, the controllers, what is on its way between them, and what was seen so far.

A world is never changed once it was visited. A step works on a copy, in which only the nodes that take part
are copied, too; everything else is shared between worlds.
"""

from collections.abc import Hashable
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.node import Asked, NodeMessage
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.messages import ControllerGot, RegisterAsk, RegisterGot
from tidelog.controller.records import TopicConfigChanged, TopicCreated
from tidelog.replication.messages import (
    LeaderBegan,
    StandNow,
    TailAsk,
    TailGot,
    VoteAnswered,
    VoteAsked,
)
from tidelog.sim.explore.checks import Seen
from tidelog.sim.explore.controller import SmallController
from tidelog.sim.explore.copying import Copier, Fingerprints
from tidelog.sim.explore.disk import Disk
from tidelog.sim.explore.node import CONTROLLER, TOPIC, TOPIC_ID, SmallNode

SILENCE_MS = 10_000
"""Longer than anything waits."""

_BETWEEN_NODES = (VoteAsked, VoteAnswered, LeaderBegan, StandNow, TailAsk, TailGot)


class Flight(NamedTuple):
    """A message on its way to or from the controllers."""

    to: int
    message: Asked | ControllerGot

    def __str__(self) -> str:
        return f"{self.message} to {self.to or 'the controllers'}"


class Surroundings:
    """What all worlds of one search share."""

    def __init__(self, config: BrokerConfig, *, instant: bool) -> None:
        self.config = config
        self.instant = instant  # Whether the controllers are asked, and heard, without delay.
        self.controller = SmallController(config)
        self.prints = Fingerprints()
        self._known: dict[int, SmallNode | Disk] = {}

    def known(self, printed: int, new: SmallNode | Disk) -> SmallNode | Disk:
        """The same object for the same state: worlds differ in few of their nodes."""
        return self._known.setdefault(printed, new)


class World:
    __slots__ = (
        "_prints", "_touched", "around", "budgets", "clock_ms", "flights", "image", "nodes", "seen", "unheard",
    )  # fmt: skip

    def __init__(self, around: Surroundings, budgets: dict[str, int]) -> None:
        self.around = around
        self.budgets = budgets
        self.image = ClusterImage()
        self.nodes: dict[int, SmallNode | Disk] = {}  # A disk where nobody runs.
        self.flights: tuple[Flight, ...] = ()
        self.unheard: dict[int, tuple[ClusterImage, ...]] = {}  # metadata on its way to each node
        self.seen = Seen()
        self.clock_ms = SILENCE_MS
        self._touched: set[int] = set()
        self._prints: dict[int, int] = {}

    # --- copies ---------------------------------------------------------------------------------------------

    def child(self) -> "World":
        new = World.__new__(World)
        new.around, new.image, new.flights = self.around, self.image, self.flights
        new.seen, new.clock_ms = self.seen, self.clock_ms
        new.budgets, new.nodes, new.unheard = dict(self.budgets), dict(self.nodes), dict(self.unheard)
        new._touched, new._prints = set(), dict(self._prints)
        return new

    def freeze(self) -> int:
        """The step is over. The fingerprint of the world."""
        for number in self._touched if len(self._touched) < len(self.nodes) else self.nodes:
            printed = hash(self.around.prints.of(self.nodes[number], self.clock_ms))
            self.nodes[number] = self.around.known(printed, self.nodes[number])
            self._prints[number] = printed
        self._touched = set()
        image = self.around.prints.of_struct
        parts: Hashable = (
            tuple(self._prints.items()),
            image(self.image),
            frozenset((flight, self.flights.count(flight)) for flight in self.flights),
            tuple((number, tuple(map(image, images))) for number, images in self.unheard.items()),
            tuple(self.budgets.items()),
            self.seen,
        )
        return hash(parts)

    def touch(self, number: int) -> SmallNode:
        """The node, to be changed."""
        node = self.nodes[number]
        if number not in self._touched:
            node = self.nodes[number] = Copier().copy(node)
            self._touched.add(number)
        if not isinstance(node, SmallNode):
            raise LookupError(f"node {number} does not run")
        node.clock.clock_ms = self.clock_ms
        return node

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[int]:
        return [number for number, node in self.nodes.items() if isinstance(node, SmallNode)]

    def node(self, number: int) -> SmallNode:
        node = self.nodes[number]
        if not isinstance(node, SmallNode):
            raise LookupError(f"node {number} does not run")
        return node

    def rows(self, number: int) -> tuple[bytes, ...]:
        """The log of a node, whether it runs or not."""
        node = self.nodes[number]
        return node.disk.rows if isinstance(node, SmallNode) else node.rows

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def spend(self, budget: str) -> None:
        self.budgets[budget] -= 1

    # --- the controllers ------------------------------------------------------------------------------------

    def decided(self, image: ClusterImage) -> None:
        """The controllers have committed something."""
        if image is self.image:
            return
        self.image = image
        for number in self.running:
            self.unheard[number] = (*self.unheard.get(number, ()), image)

    def hear(self, number: int) -> None:
        """The next metadata reaches a node."""
        image, *later = self.unheard[number]
        self.unheard[number] = tuple(later)
        self.touch(number).hear(image)

    def handle(self, asked: Asked) -> list[ControllerGot]:
        image, answers = self.around.controller.handle(self.image, asked.ask)
        self.decided(image)
        return answers

    # --- nodes that come and go -----------------------------------------------------------------------------

    def found(self, numbers: tuple[int, ...], mode: str, configs: dict[str, str]) -> None:
        """A cluster with one topic."""
        for number in numbers:
            self.nodes[number] = Disk(UUID(int=1000 + number))
            self.start(number)
        created = TopicCreated(TOPIC, TOPIC_ID, [list(numbers)], configs, mode=mode)
        self.decided(self.around.controller.commit(self.image, [created]))

    def start(self, number: int) -> None:
        """A process starts, registers, and is let in as soon as it has heard of that."""
        disk = self.nodes[number]
        if isinstance(disk, SmallNode):
            raise LookupError(f"node {number} runs")
        if number not in self._touched:
            disk = Copier().copy(disk)
        self._touched.add(number)
        incarnation = UUID(int=(self.image.last_broker_epoch + 1) * 100 + number)
        ask = RegisterAsk(number, incarnation, f"node{number}", 9092, None, False, disk.identity)
        image, answers = self.around.controller.handle(self.image, ask)
        (got,) = [answer for answer in answers if isinstance(answer, RegisterGot)]
        node = SmallNode(number, self.around.config, disk, incarnation, got.broker_epoch, self.clock_ms)
        self.nodes[number] = node
        self.unheard[number] = ()
        self.decided(image)
        if self.around.instant:
            self.settle()
            self.decided(self.around.controller.unfence(self.image, number))

    def kill(self, number: int) -> None:
        node = self.touch(number)
        hosted = node.hosted
        if hosted is not None:
            node.disk.high_watermark = hosted.replica.high_watermark
        self.nodes[number] = node.disk
        self.unheard.pop(number, None)
        if self.around.instant:
            self.decided(self.around.controller.fence(self.image, number))

    def replace_disk(self, number: int) -> None:
        """Of a node that does not run."""
        disk = self.nodes[number]
        identity = disk.identity if isinstance(disk, Disk) else UUID(int=0)
        self.nodes[number] = Disk(UUID(int=identity.int + 1000))
        self._touched.add(number)
        self.seen = self.seen.lost_by(number)

    def configure(self, changes: dict[str, str | None]) -> None:
        """An operator changes the topic; the controllers take the steps that are possible at once."""
        controller = self.around.controller
        self.decided(controller.commit(self.image, [TopicConfigChanged(TOPIC_ID, changes)]))
        self.decided(controller.settle(self.image))

    # --- the end of a step ----------------------------------------------------------------------------------

    def settle(self, reach: frozenset[int] | None = None) -> None:
        """What was sent leaves. ``reach``: nodes that hear each other; None: all that run."""
        while True:
            mail = self._collect()
            if mail:
                for to, message in mail:
                    self._carry(to, message, reach)
            elif self.around.instant and self._hear_all():
                pass
            else:
                return

    def _collect(self) -> list[tuple[int, NodeMessage]]:
        mail: list[tuple[int, NodeMessage]] = []
        for number in sorted(self._touched):
            node = self.nodes[number]
            if isinstance(node, SmallNode):
                mail += [(to, message) for to, message in node.mail.sent]
                node.mail.sent = []
        return mail

    def _carry(self, to: int, message: NodeMessage, reach: frozenset[int] | None) -> None:
        if isinstance(message, Asked):
            if self.around.instant:
                for answer in self.handle(message):
                    if isinstance(self.nodes[message.sender], SmallNode):
                        self.touch(message.sender).told(answer)
            else:
                self.flights = (*self.flights, Flight(CONTROLLER, message))
        elif isinstance(message, _BETWEEN_NODES) and to in self.nodes:
            able = reach is None or (to in reach and message.sender in reach)
            if able and isinstance(self.nodes[to], SmallNode):
                self.touch(to).receive(message)

    def _hear_all(self) -> bool:
        late = [number for number in self.running if self.unheard.get(number)]
        for number in late:
            self.hear(number)
        return bool(late)
