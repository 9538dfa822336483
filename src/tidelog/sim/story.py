"""Scripted faults on a simulated cluster, told line by line: what happens to one partition on brokers A, B
and C.

A is whoever leads when the story begins. Every step is told with what came of it; the same script tells the
same story.
"""

from collections.abc import Callable
from typing import Any

from tidelog.controller.image import PartitionImage
from tidelog.controller.topics import TopicWish
from tidelog.errors import ErrorCode
from tidelog.replication.hosted import Hosted
from tidelog.sim.clients import Producer
from tidelog.sim.cluster import SimCluster, SimNode

TOPIC = "t"
LETTERS = "ABCDE"
ACKS = {-1: "all", 1: "1"}


class Story:
    def __init__(self, size: int = 3, seed: int = 1, **configs: str) -> None:
        self.cluster = SimCluster(seed, size)
        self.lines: list[str] = []
        self._last_seen = PartitionImage((), (), -1, -1)
        self._began_ms = 0.0
        self.cluster.start()
        settings = {
            "min.insync.replicas": "2",
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
        self.cluster.create_topic(TopicWish(TOPIC, 1, size, {}, settings))
        self.run(5000)
        leader = self.partition().leader
        others = [node for node in sorted(self.cluster.nodes) if node != leader]
        self._ids = dict(zip(LETTERS, [leader, *others], strict=False))
        self._names = {number: letter for letter, number in self._ids.items()}
        self._began_ms = self.cluster.world.now_ms
        self._told = ""
        self.tell_state()

    # --- looking --------------------------------------------------------------------------------------------

    def partition(self) -> PartitionImage:
        """As the newest controller sees it."""
        known = [
            node.node.metadata
            for node in self.cluster.nodes.values()
            if node.node is not None and TOPIC in node.node.metadata.image.topics
        ]
        if known:
            newest = max(known, key=lambda metadata: (metadata.active, metadata.committed_offset))
            self._last_seen = newest.image.topics[TOPIC].partitions[0]
        return self._last_seen

    def hosted(self, letter: str) -> Hosted:
        number = self._ids[letter]
        return next(hosted for node, hosted in self.cluster.hosted(TOPIC, 0) if node.node_id == number)

    def node(self, letter: str) -> SimNode:
        return self.cluster.nodes[self._ids[letter]]

    # --- telling --------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        seconds = (self.cluster.world.now_ms - self._began_ms) / 1000
        self.lines.append(f"{seconds:7.2f} s  {text}")

    def tell_state(self) -> None:
        partition = self.partition()
        leader = self._letters((partition.leader,)) if partition.leader >= 0 else "nobody"
        state = f"leader {leader}, epoch {partition.leader_epoch}, in sync {self._letters(partition.in_sync)}"
        if partition.eligible:
            state += f", eligible {self._letters(partition.eligible)}"
        if state != self._told:
            self._told = state
            self.tell(f"  {state}")

    def _letters(self, brokers: tuple[int, ...]) -> str:
        return " ".join(sorted(self._names[broker] for broker in brokers))

    # --- doing ----------------------------------------------------------------------------------------------

    def run(self, milliseconds: float) -> None:
        """Let time pass, and tell every change of leader and members on the way."""
        end = self.cluster.world.now_ms + milliseconds
        while self.cluster.world.now_ms < end:
            self.cluster.world.run_until(min(end, self.cluster.world.now_ms + 10))
            if self._began_ms:
                self.tell_state()

    def until(self, condition: Callable[[], bool], what: str, patience_ms: float = 20_000) -> None:
        end = self.cluster.world.now_ms + patience_ms
        while not condition():
            if self.cluster.world.now_ms >= end:
                raise AssertionError(f"{what} did not happen:\n" + "\n".join(self.lines))
            self.run(10)

    def kill(self, *letters: str) -> None:
        self.tell(f"kill {' and '.join(letters)}")
        for letter in letters:
            self.node(letter).kill()

    def power_off(self, *letters: str) -> None:
        self.tell(f"{' and '.join(letters)} lose power, unsynced data is gone")
        for letter in letters:
            self.node(letter).lose_power()

    def start(self, *letters: str) -> None:
        self.tell(f"start {' and '.join(letters)}")
        for letter in letters:
            self.node(letter).start()

    def freeze(self, letter: str) -> None:
        self.tell(f"freeze {letter}")
        services = self.node(letter).services
        if services is not None:
            services.pause()

    def thaw(self, letter: str) -> None:
        self.tell(f"{letter} goes on")
        services = self.node(letter).services
        if services is not None:
            services.resume()

    def cut_off(self, letter: str) -> None:
        self.tell(f"cut {letter} off from the others")
        self.cluster.network.part([self._ids[letter]], self.cluster.nodes)

    def heal(self) -> None:
        self.tell("heal the network")
        self.cluster.network.heal()

    def write(self, acks: int = -1, at: str | None = None, patience_ms: float = 4000) -> ErrorCode | None:
        """One record to whoever leads, or to the broker a client with old metadata takes for the leader."""
        producer = Producer(self.cluster, 0, TOPIC, 0, acks)
        heard: list[tuple[int, ErrorCode]] = []
        target = self._target(at)
        where = at or (self._letters((target[1].replica.me,)) if target else "nobody")
        if target is None:
            self.tell(f"write acks={ACKS[acks]}: nobody leads")
            return None
        services, hosted = target
        services.run(
            lambda: producer.append(
                services, hosted, 1, lambda offset, code, crc: heard.append((offset, code))
            )
        )
        end = self.cluster.world.now_ms + patience_ms
        while not heard and self.cluster.world.now_ms < end:
            self.run(10)
        if not heard:
            self.tell(f"write acks={ACKS[acks]} to {where}: no answer")
            return None
        offset, code = heard[0]
        self.tell(f"write acks={ACKS[acks]} to {where}: " + (f"ok at {offset}" if not code else code.name))
        return code

    def _target(self, at: str | None) -> Any:
        if at is not None:
            node = self.node(at)
            return (node.services, self.hosted(at)) if node.services is not None else None
        for node, hosted in self.cluster.hosted(TOPIC, 0):
            if node.node_id == self.partition().leader and node.services is not None:
                return node.services, hosted
        return None

    def tell_logs(self) -> None:
        """How far each living replica's log and watermark reach."""
        parts = []
        for letter in self._ids:
            if self.node(letter).alive:
                hosted = self.hosted(letter)
                parts.append(f"{letter} 0..{hosted.log.end_offset} watermark {hosted.replica.high_watermark}")
        self.tell("  logs: " + ", ".join(parts))

    def all_in_sync(self) -> bool:
        partition = self.partition()
        return partition.leader >= 0 and len(partition.in_sync) == len(partition.replicas)
