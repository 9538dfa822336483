"""Scripted faults on a simulated cluster, line by line: what happens to one partition on brokers A, B and C,
with three controllers X, Y and Z.

A is the leader when the story begins, X the active controller. The same script gives the same story. Records
are called r1, r2, …; a bar in a log marks its high watermark.
"""

from collections.abc import Iterable, Mapping
from typing import Self, cast

from tidelog.config.modes import ISR
from tidelog.controller import leadership
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import may_be_led
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.batches import entries, entries_between
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.clients.client import ProduceCall, ReadCall, Reply
from tidelog.sim.cluster import BrokerMachine, SimCluster
from tidelog.sim.machine import DATA
from tidelog.sim.telling import STEP_MS, StoryFailed, Telling, expect

TOPIC = "t"
BROKERS = "ABCDE"
CONTROLLERS = "XYZ"
ACKS = {-1: "all", 0: "0", 1: "1"}
PRODUCER_ID = 77


class Sent:
    """A write, and its response."""

    def __init__(self, name: str, where: str, acks: int, batch: bytes) -> None:
        self.name = name
        self.where = where
        self.acks = acks
        self.batch = batch
        self.reply: Reply | None = None


class Story(Telling):
    settings: Mapping[str, object] = {}  # of all brokers
    controllers = len(CONTROLLERS)  # beside the brokers; 0: the brokers are the controllers

    def __init__(self, brokers: int = 3, seed: int = 1, **configs: str) -> None:
        self.cluster = SimCluster(seed, brokers, self.controllers, self.settings)
        super().__init__(self.cluster.world, self.cluster.network, self.cluster.machines)
        self.client = self.cluster.client()
        self._records = 0
        self._sequence = 0
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        mode = settings.setdefault("replication.mode", ISR)
        self._found({"min.insync.replicas": "2", **settings} if mode == ISR else settings)

    def _found(self, settings: dict[str, str]) -> None:
        hosts = list(self.cluster.brokers)
        self.cluster.start()
        self.cluster.create_topic(NewTopic(TOPIC, -1, -1, {0: hosts}, settings))
        self.world.run_while(lambda: not self.all_in_sync(), 20_000)
        self.world.run_until(self.world.now_ms + 2000)
        leader, active = self.partition().leader, self.cluster.active()
        if leader < 0 or active is None:
            raise StoryFailed("the cluster does not begin")
        brokers = [leader, *(node for node in hosts if node != leader)]
        names = dict(zip(brokers, BROKERS, strict=False))
        if self.controllers:
            voters = [active.node_id, *(node for node in self.cluster.voters if node != active.node_id)]
            names |= dict(zip(voters, CONTROLLERS, strict=True))
        self.begin(names)

    # --- looking --------------------------------------------------------------------------------------------

    def partition(self) -> PartitionImage:
        """As the controllers see it."""
        topic = self.cluster.checker.metadata.newest.topics.get(TOPIC)
        return topic.partitions[0] if topic is not None else PartitionImage((), (), -1, -1)

    def machine(self, letter: str) -> BrokerMachine:
        return cast(BrokerMachine, self.machine_of(letter))

    def driver(self, letter: str) -> ReplicaDriver:
        machine = self.machine(letter)
        return next(driver for found, driver in self.cluster.drivers(TOPIC, 0) if found is machine)

    def has_opened(self, letter: str) -> bool:
        return any(found is self.machine(letter) for found, _ in self.cluster.drivers(TOPIC, 0))

    def all_in_sync(self) -> bool:
        partition = self.partition()
        return partition.leader >= 0 and len(partition.in_sync) == len(partition.replicas)

    def is_led_anew(self, after_epoch: int) -> bool:
        return self.partition().leader >= 0 and self.partition().leader_epoch > after_epoch

    def in_sync(self) -> str:
        """The members, as letters."""
        return "".join(sorted(self._names[node] for node in self.partition().in_sync))

    def is_relied_on(self, letter: str) -> bool:
        """Whether the replica counts as one that holds what it acknowledged, available or not."""
        return self.machine(letter).node_id in self.partition().remember

    def leader(self) -> str:
        return self._names.get(self.partition().leader, "nobody")

    # --- telling --------------------------------------------------------------------------------------------

    def state(self) -> str:
        partition = self.partition()
        state = (
            f"leader {self.leader()}, epoch {partition.leader_epoch}, in sync {self._list(partition.in_sync)}"
        )
        if partition.eligible:
            state += f", eligible {self._list(partition.eligible)}"
        if partition.unclean_epoch >= 0 and partition.unclean_epoch == partition.leader_epoch:
            state += ", records may be given up"
        return state

    def _list(self, nodes: Iterable[int]) -> str:
        return " ".join(sorted(self._names[node] for node in nodes)) or "nobody"

    def tell_logs(self) -> None:
        """What each living replica holds; a bar at its high watermark."""
        self.tell("  logs  " + "   ".join(self._log(letter) for letter in self._living()))

    def _living(self) -> list[str]:
        found = {machine.node_id for machine, _ in self.cluster.drivers(TOPIC, 0)}
        return sorted(name for node, name in self._names.items() if node in found)

    def _log(self, letter: str) -> str:
        driver = self.driver(letter)
        log, watermark = driver.log, driver.replica.high_watermark
        words = [letter]
        for entry in entries_between(log, log.start_offset, log.end_offset):
            if entry.offset == watermark:
                words.append("|")
            words.append(entry.value.decode())
        return " ".join(words) + (" |" if watermark >= log.end_offset else "")

    def end(self) -> Self:
        """How most stories end: a moment later, with the logs of all replicas."""
        self.run(500)
        self.tell_logs()
        return self

    def end_whole(self, returns: str) -> Self:
        """The same, when the last one that was down is back and has everything."""
        self.until(self.all_in_sync, f"the return of {returns}")
        return self.end()

    # --- faults ---------------------------------------------------------------------------------------------

    def deafen_client(self, letter: str) -> None:
        self.tell(f"the client hears nothing of {letter} any more")
        self.network.cut(self.machine(letter).node_id, self.client.client_id)

    def flip_bit(self, letter: str, *, newest: bool = False, segment: int = 0) -> None:
        """In a segment's first batch, or the partition's last one, while the process is dead."""
        machine, topic = self.machine(letter), self.cluster.checker.metadata.newest.topics[TOPIC]
        path, content = self.segments(letter)[-1 if newest else segment]
        position, header = list(iterate(content))[-1 if newest else 0]
        where = "in the newest batch" if newest else f"in the {('first', 'second', 'third')[segment]} segment"
        self.tell(f"a bit flips on the disk of {letter}, {where}")
        machine.disk.flip(path, position + header.size - 1, 0)
        machine.decayed = True
        place = Place(topic, 0)
        damage = Damage(machine.node_id, place.key, machine.disk, path, position, header.base_offset)
        self.cluster.checker.damaged(place, damage)

    def tear(self, letter: str) -> None:
        """The state that a kill within the next write leaves: the beginning of a batch with the next
        offset.
        """
        path, content = self.segments(letter)[-1]
        _, newest = list(iterate(content))[-1]
        next_batch = newest.next_offset.to_bytes(8, "big") + content[8 : newest.size * 2 // 3]
        self.machine(letter).disk.open(path).write_at(len(content), next_batch)

    def lose_replica(self, letter: str) -> None:
        """Tell the checkers that everything the broker had of the partition is lost."""
        place = Place(self.cluster.checker.metadata.newest.topics[TOPIC], 0)
        self.cluster.checker.promise(place).lost(place, self.machine(letter).node_id, 0, for_good=True)

    def segments(self, letter: str) -> list[tuple[str, bytes]]:
        """The paths of the partition's segments on the broker's disk, oldest first, and their content."""
        contents = self.machine(letter).disk.contents(f"{DATA}/{TOPIC}-0")
        return sorted((path, data) for path, data in contents.items() if path.endswith(".log"))

    def prefer(self, letter: str) -> None:
        """The first replica leads again."""
        rules = Rulebook(self.cluster.config)
        self.tell(f"{letter} is to lead again")
        self.cluster.decide(lambda image: leadership.elect(image, TOPIC, 0, rules.at(image), unclean=False))
        self.until(lambda: self.leader() == letter, "the election")

    def elect_unclean(self) -> None:
        """An operator gives up the leader, and what only it holds."""
        rules = Rulebook(self.cluster.config)
        epoch = self.partition().leader_epoch
        place = Place(self.cluster.checker.metadata.newest.topics[TOPIC], 0)
        self.until(self._sessions_are_over, "the end of all sessions of fenced brokers")
        self.cluster.checker.may_force(place)
        self.tell("an operator has another one lead, whatever it lacks")
        self.cluster.decide(lambda image: leadership.elect(image, TOPIC, 0, rules.at(image), unclean=True))
        self.until(lambda: self.is_led_anew(epoch), "the election")

    def _sessions_are_over(self) -> bool:
        """An election is refused before."""
        newest = self.cluster.checker.metadata.newest
        return not may_be_led(self.partition(), BrokerAvailability.of(newest))

    def be_damaged(self) -> Self:
        """A has a damaged record in an old segment, and leads: no reader gets it, and A fetches it from the
        others.
        """
        for _ in range(6):
            expect(self.write(), ErrorCode.NONE)
        self.run(3500)
        self.kill("A")
        self.until(lambda: self.leader() != "A", "the end of the leadership")
        self.flip_bit("A")
        self.start("A")
        self.until(self.all_in_sync, "the return of A")
        if self.leader() != "A":
            self.prefer("A")
        epoch = self.partition().leader_epoch
        expect(self.read(at="A"), [])
        self.until(lambda: self.is_led_anew(epoch) and self.all_in_sync(), "the repair")
        expect(self.read(), [f"r{number}" for number in range(1, 7)])
        return self.end()

    # --- clients --------------------------------------------------------------------------------------------

    def write(
        self, acks: int = -1, at: str | None = None, *, idempotent: bool = False, patience_ms: float = 4000
    ) -> ErrorCode | None:
        """One record to the leader, or to the broker that a client with old metadata considers the leader."""
        sent = self.send(acks, at, idempotent=idempotent)
        return self.await_answer(sent, patience_ms)

    def send(self, acks: int = -1, at: str | None = None, *, idempotent: bool = False) -> Sent:
        """A write that is not waited for; not told yet."""
        self._records += 1
        name = f"r{self._records}"
        record = Record(0, int(self.world.now_ms), None, name.encode(), ())
        if idempotent:
            batch = encode_batch(
                [record], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=self._sequence
            )
            self._sequence += 1
        else:
            batch = encode_batch([record])
        sent = Sent(name, at or self.leader(), acks, bytes(batch))
        self._ask(sent)
        return sent

    def send_again(self, sent: Sent, at: str | None = None) -> Sent:
        """The same request again, as a client does without a response."""
        again = Sent(f"{sent.name} again", at or self.leader(), sent.acks, sent.batch)
        self._ask(again)
        return again

    def _ask(self, sent: Sent) -> None:
        if sent.where == "nobody":
            return
        call = ProduceCall(
            self.client.client_id, self.client.next_number(), TOPIC, 0, sent.batch, sent.acks, 30_000
        )

        def answered(reply: Reply) -> None:
            sent.reply = reply

        self.client.ask(self.machine(sent.where).node_id, call, answered, patience_ms=60_000)

    def await_answer(self, sent: Sent, patience_ms: float = 4000) -> ErrorCode | None:
        what = f"write {sent.name} acks={ACKS[sent.acks]} to {sent.where}"
        if sent.where == "nobody":
            self.tell(f"write {sent.name} acks={ACKS[sent.acks]}: nobody leads")
            return None
        end = self.world.now_ms + patience_ms
        while sent.reply is None and self.world.now_ms < end:
            self.run(STEP_MS)
        if sent.reply is None:
            self.tell(f"{what}: no answer")
            return None
        reply = sent.reply
        self.tell(f"{what}: " + (reply.error.name if reply.error else f"ok at {reply.offset}"))
        return reply.error

    def read(self, at: str | None = None) -> list[str]:
        """Everything a consumer gets, from the start."""
        where, got, position = at or self.leader(), list[str](), 0
        while True:
            reply = self.read_at(where, position)
            if reply.error:
                self.tell(f"read at {where}: {reply.error.name}")
                return got
            found = list(entries(reply.records))
            if not found:
                break
            got += [entry.value.decode() for entry in found]
            position = found[-1].offset + 1
        self.tell(f"read at {where}: {' '.join(got) or 'nothing'}")
        return got

    def read_at(self, where: str, offset: int) -> Reply:
        """What a consumer gets that wants what comes at ``offset``."""
        heard: list[Reply] = []
        call = ReadCall(self.client.client_id, self.client.next_number(), TOPIC, 0, offset, -1, -1, 1 << 20)
        self.client.ask(self.machine(where).node_id, call, heard.append)
        while not heard:
            self.run(STEP_MS)
        return heard[0]
