"""All checkers of one simulated cluster, and the events that each of them gets."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import cast
from uuid import UUID

from tidelog.broker.coordinators.internal_topics import TRANSACTION_STATE
from tidelog.broker.metadata.opening import METADATA_KEY
from tidelog.broker.node.node import Node
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.errors import InvariantViolation
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import CUTS_COMMITTED, Role
from tidelog.sim.checkers.batches import (
    Batch,
    Entry,
    batches_between,
    batches_on_disk,
    end_on_disk,
    entries_between,
    newest_of,
    synced_on_disk,
)
from tidelog.sim.checkers.damage import Damage, DamageChecker
from tidelog.sim.checkers.deletions import Deletions
from tidelog.sim.checkers.groups import GroupChecker
from tidelog.sim.checkers.history import PartitionHistory
from tidelog.sim.checkers.metadata import MetadataChecker, decisions
from tidelog.sim.checkers.promises import PROMISES, Place, Promise, Surroundings
from tidelog.sim.checkers.promises.losses import Losses, trusted
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.promises.syncing import Syncing
from tidelog.sim.checkers.replicas import ANYWHERE, ReplicaChecker
from tidelog.sim.checkers.transactions import TransactionHistory, Value
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.votes import elects_itself
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.machine import DATA
from tidelog.sim.world import World

RETENTION = frozenset({"retention.bytes", "retention.ms"})  # with which the seeds delete records


class ClusterChecker:
    def __init__(
        self,
        world: World,
        nodes: Callable[[], Iterable[Node]],
        disk_of: Callable[[int], SimulatedDisk],
    ) -> None:
        self._world = world
        self._nodes = nodes  # those alive
        self._disk_of = disk_of
        self.replicas = ReplicaChecker(world, self.name, self.is_compacted)
        self.metadata = MetadataChecker(world.note)
        self.metadata.on_described = self._described
        self.metadata.on_decided = self._decided
        self.metadata.on_passed = self._passed
        self.losses = Losses()
        self.syncing = Syncing(nodes)
        self._may_be_forced: set[Key] = set()
        around = Surroundings(
            self.metadata, nodes, world.note, self._forgive, self.replicas.committed_end,
            self.replicas.committed_before, self.replicas.agreed_end, self.replicas.voters, self.losses,
            self.syncing, self._may_be_forced, self._held_on_disk,
        )  # fmt: skip
        self._promises = {mode: promise(around) for mode, promise in PROMISES.items()}
        self.damages = DamageChecker()
        self._dropping: set[tuple[Key, int]] = set()  # damaged replicas, until they are intact again
        # (partition, node) whose disk lied → what was committed then
        self._deceptions: dict[tuple[Key, int], int] = {}
        # partition → where what a disk lied about begins, and in which epoch the last of it was written
        self._unnoticed: dict[Key, tuple[int, int]] = {}
        self.given_up: set[tuple[str, int]] = set()  # partitions that may have lost records
        self.replaced: set[int] = set()  # nodes with replaced disks
        self._former: dict[int, UUID] = {}  # of each of them, the process that was registered then
        self._lost_by: dict[int, UUID] = {}  # the same of each node that lost power
        self.deletions = Deletions()
        self.transactions = TransactionHistory(self.given_up)
        self.groups: list[GroupChecker] = []
        self._names: dict[PartitionKey, str] = {METADATA_KEY: "metadata"}
        self._histories: dict[tuple[str, int], PartitionHistory] = {}

    def name(self, key: PartitionKey) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        topic_id, index = cast(tuple[UUID, int], key)
        name = self.metadata.newest.topic_names.get(topic_id)
        if name is None:
            return f"deleted-{index}"
        self._names[key] = f"{name}-{index}"
        return self._names[key]

    def is_compacted(self, key: PartitionKey) -> bool:
        topic_id, _ = cast(tuple[UUID, int], key)
        topic = self.metadata.newest.topic_by_id(topic_id)  # None: the metadata itself.
        return topic is not None and "compact" in topic.configs.get("cleanup.policy", "")

    def history(self, topic: str, partition: int) -> PartitionHistory:
        name = (topic, partition)
        if name not in self._histories:
            self._histories[name] = PartitionHistory(
                f"{topic}-{partition}",
                lambda acks: self._is_safe(topic, partition, acks),
                lambda: self._committed_end(topic, partition),
            )
        return self._histories[name]

    @property
    def histories(self) -> Iterable[PartitionHistory]:
        return self._histories.values()

    # --- by mode --------------------------------------------------------------------------------------------

    def promise(self, place: Place) -> Promise:
        """The promise of the partition's mode."""
        return self._promises[place.partition.mode]

    def places(self) -> list[Place]:
        """All known partitions."""
        return [
            Place(topic, index)
            for topic in self.metadata.newest.topics.values()
            for index in range(len(topic.partitions))
        ]

    def _place_of(self, key: PartitionKey) -> Place | None:
        topic_id, index = cast(tuple[UUID, int], key)
        topic = self.metadata.newest.topic_by_id(topic_id)
        return None if topic is None else Place(topic, index)

    def _is_safe(self, topic: str, index: int, acks: int) -> bool:
        known = self.metadata.newest.topics.get(topic)
        return known is not None and self.promise(Place(known, index)).is_safe(acks)

    def _committed_end(self, topic: str, index: int) -> int:
        known = self.metadata.newest.topics.get(topic)
        return ANYWHERE if known is None else self.replicas.committed_end(Place(known, index).key)

    def _described(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            place = Place(topic, index)
            promise = self.promise(place)
            promise.described(place)
            self._look_at_failed(place)
            for node in filter(self._is_taken_for_its_former_disk, place.partition.replicas):
                if node not in self.losses.of(place.key):
                    promise.lost(place, node, 0, for_good=True)
            self.syncing.described(place, wanted=promise.wants_sync(topic))
            if not RETENTION.isdisjoint(topic.configs):
                self.history(topic.name, index).shortened = True

    def _is_taken_for_its_former_disk(self, node_id: int) -> bool:
        """The controllers do not know yet that the disk was replaced: replicas that they create there count
        as lost when they learn of it.
        """
        known = self.metadata.newest.brokers.get(node_id)
        return known is not None and self._former.get(node_id) == known.incarnation

    def _decided(self, topic: TopicImage, index: int, before: PartitionImage) -> None:
        place = Place(topic, index)
        self.promise(place).decided(place, before)
        if place.partition.unclean_epoch > before.unclean_epoch:
            self.replicas.elected_uncleanly(place.key, place.partition.unclean_epoch)

    def _passed(self, topic: TopicImage, index: int, state: PartitionImage) -> None:
        place = Place(topic, index)
        self.promise(place).passed(place, state)

    # --- while it happens -----------------------------------------------------------------------------------

    def role_changed(self, driver: ReplicaDriver) -> None:
        self.replicas.role_changed(driver)
        self.syncing.look()
        if driver.replica.role is Role.LEADER and driver.key != METADATA_KEY:
            place = self._place_of(driver.key)
            if place is not None:
                self.promise(place).leads(place, driver)

    def committed(self, driver: ReplicaDriver) -> None:
        self.replicas.committed(driver)
        self._look_at_deceived(driver)
        if driver.replica.role is Role.LEADER and driver.key != METADATA_KEY:
            place = self._place_of(driver.key)
            if place is not None:
                self.promise(place).committed(place, driver)

    def applied(self, node: Node, image: ClusterImage) -> None:
        """A node is about to act on new metadata."""
        self.metadata.applied(node.me, node.metadata.committed_offset, image, self._between(node))
        for place in filter(None, map(self._place_of, self.losses.failed_writes.keys())):
            self._look_at_failed(place)
        not_back = self._not_back()
        for place in filter(None, map(self._place_of, self.losses.keys())):
            self.losses.note_joined(place, self.damages.nodes(place), not_back)
            self.promise(place).judge(place)
        for place in filter(None, (self._place_of(damage.key) for damage in self.damages.dropped())):
            self.promise(place).dropped(place, self.damages.nodes(place))

    def _between(self, node: Node) -> list[ClusterImage]:
        """Several decisions may be committed at once: an in-sync set that only one replica is left of, and
        then that this one lost power, too.
        """
        known, end_offset = self.metadata.newest_offset, node.metadata.committed_offset
        if end_offset <= known + 1:
            return []
        return [*decisions(node.metadata.driver.log, self.metadata.newest, known, end_offset)][:-1]

    def _not_back(self) -> set[int]:
        """Nodes that lost power, and have not registered since: what is decided about them is about the
        process that was there before.
        """
        brokers = self.metadata.newest.brokers
        return {
            node
            for node, process in self._lost_by.items()
            if node in brokers and brokers[node].incarnation == process
        }

    def power_lost(
        self,
        node_id: int,
        disk: SimulatedDisk,
        promised: Mapping[PartitionKey, int],
        *,
        disk_too: bool = False,
        lied: bool = False,
    ) -> None:
        """``promised``: up to where the node has acknowledged its leaders' logs. ``lied``: its disk had
        reported syncs that it had not done.
        """
        known = self.metadata.newest.brokers.get(node_id)
        if known is not None:
            self._lost_by[node_id] = known.incarnation
        if disk_too:
            self.replaced.add(node_id)
            if known is not None:
                self._former[node_id] = known.incarnation
        for place in self.places():
            held = self._held(place, disk)
            if not disk_too:
                told = self.damages.first(place, node_id, promised.get(place.key, 0))
                if lied:
                    self._deceived(place, node_id, held, told)
                    continue
                self._promise_kept(place, node_id, end_on_disk(disk, f"{DATA}/{place.name}"), told)
            if node_id in place.partition.replicas:
                self.promise(place).lost(place, node_id, held, for_good=disk_too)

    def _held(self, place: Place, disk: SimulatedDisk) -> int:
        """Up to where a disk holds what was committed. Its log may end later, with records that an earlier
        leader wrote and nobody committed. That end may be inside a batch that was committed instead.
        """
        directory = f"{DATA}/{place.name}"
        return self._agreed(place, end_on_disk(disk, directory), batches_on_disk(disk, directory))

    def _agreed(self, place: Place, end: int, found: list[tuple[int, Batch]]) -> int:
        if not found or self.is_compacted(place.key):
            return end
        return min(end, self.replicas.divergence(place.key, found[0][0], found))

    def _held_on_disk(self, place: Place, node_id: int, *, synced: bool) -> int:
        """The same for a node that may be alive. ``synced``: what the worst power failure would leave."""
        disk = self._disk_of(node_id)
        if not synced:
            return self._held(place, disk)
        return self._agreed(place, *synced_on_disk(disk, f"{DATA}/{place.name}"))

    def writes_failed(self, node_id: int, disk: SimulatedDisk, dropped: Container[str]) -> None:
        """A process starts after its predecessor's disk failed, and does not say that it may lack anything.

        It lacks what a failed sync has ``dropped`` (paths), and nothing else. Still, the controllers no
        longer rely on a replica whose log was reported as failed: it then counts as one that lost its
        unsynced tail. All others they trust as before, and rightly so.
        """
        known = self.metadata.newest.brokers.get(node_id)
        process = None if known is None else known.incarnation
        for place in self.places():
            if node_id not in place.partition.replicas:
                continue
            segments = [path for path in disk.contents(f"{DATA}/{place.name}") if path.endswith(".log")]
            if any(path in dropped for path in segments):
                if process is not None:
                    self._lost_by[node_id] = process
                self.promise(place).lost(place, node_id, self._held(place, disk), for_good=False)
            else:
                self.losses.failed_writes.note(place.key, node_id, process, self._held(place, disk))

    def _look_at_failed(self, place: Place) -> None:
        """What the controllers made of failed writes, once they know the node's next process."""
        brokers = self.metadata.newest.brokers
        processes = {node: broker.incarnation for node, broker in brokers.items()}
        for node, end in self.losses.failed_writes.back(place.key, processes):
            known_end = self.losses.of(place.key).get(node, ANYWHERE)
            if node in place.partition.replicas and node not in trusted(place.partition) and end < known_end:
                self.promise(place).lost(place, node, end, for_good=False)

    def _deceived(self, place: Place, node_id: int, end: int, told: int) -> None:
        """A replica has lost what it considered synced, and does not know: it still counts. What was
        acknowledged since may be lost, until it has fetched it again. ``told``: up to where it has
        acknowledged its leader's log, which may be committed only now.
        """
        held = max(self.replicas.committed_end(place.key), told)
        if node_id in place.partition.replicas and end < held:
            self._deceptions[place.key, node_id] = held
            floor, _ = self._unnoticed.get(place.key, (end, -1))
            self._unnoticed[place.key] = min(floor, end), self.replicas.last_epoch_led(place.key)
            self.losses.note(place.key, node_id, end, for_good=False, lied=True)
            self.replicas.damaged(place.key, node_id, end)
            self.promise(place).judge(place)
            self._world.note(f"{place.name}: node {node_id} was deceived by its disk, from {end} on")
            self._forgive(place, end)

    def lacks_unnoticed(self, driver: ReplicaDriver, error: InvariantViolation) -> bool:
        """The leader of a replica contradicts what the replica knows to be committed. Whether the leader may
        lack it because a disk lied about syncs. That does not explain records of a later epoch.
        """
        floor, last_epoch = self._unnoticed.get(cast(Key, driver.key), (ANYWHERE, -1))
        replica = driver.replica
        is_explained = replica.high_watermark > floor and replica.last_epoch <= last_epoch
        return is_explained and error.message.startswith(CUTS_COMMITTED)

    def votes_on(self, node_id: int) -> bool:
        """Whether the node has a replica of a partition whose replicas vote."""
        return any(
            node_id in place.partition.replicas and elects_itself(place.partition) for place in self.places()
        )

    def _look_at_deceived(self, driver: ReplicaDriver) -> None:
        replica = cast(Key, driver.key), driver.replica.me
        held = self._deceptions.get(replica, ANYWHERE)
        if driver.log.end_offset >= held and _has_no_other_history(driver, held):
            del self._deceptions[replica]
            self.losses.healed(*replica)
        self._forgive_deceived(driver)

    def _forgive_deceived(self, driver: ReplicaDriver) -> None:
        """What is committed now may rest on the word of a replica that has lost it since."""
        place = self._place_of(driver.key) if self._deceptions else None
        if place is None or driver.replica.role is not Role.LEADER:
            return
        for node, end in self.losses.real(place.key).items():
            held = self._deceptions.get((place.key, node), 0)
            if end < driver.replica.high_watermark <= held and node in place.partition.in_sync:
                self._forgive(place, end)

    def _promise_kept(self, place: Place, node_id: int, end: int, told: int) -> None:
        """If an acknowledgement means synced, an acknowledging fetch is sent only after the sync."""
        if end < told and self.promise(place).is_synced(place, node_id):
            raise Violation(
                f"{place.name}: node {node_id} acknowledged everything before {told}, and holds {end} after "
                "a power failure"
            )

    def may_force(self, place: Place) -> None:
        """An operator forces a leader, whatever is lost then."""
        self._may_be_forced.add(place.key)

    def delete_records(self, place: Place, offset: int) -> None:
        """An operator requests it: whether it happens, and when, is open."""
        self.deletions.asked(place.key, offset)
        self.history(place.topic.name, place.number).shortened = True

    def damaged(self, place: Place, damage: Damage) -> None:
        """A bit flipped: until the node has fetched the records again, it may truncate them and all that
        follow.
        """
        self.damages.noted(damage)
        self._dropping.add((place.key, damage.node))
        self.history(place.topic.name, place.number).damaged(damage.node, damage.offset)
        self.replicas.damaged(place.key, damage.node, damage.offset)
        self.promise(place).lost(place, damage.node, damage.offset, for_good=True)

    def confessed(self, node_id: int) -> None:
        """The controllers know that the node lost power, or that its disk is another one. They learn of
        damage when it is found.
        """
        for place in self.places():
            if node_id in place.partition.replicas and not self._is_damaged(place, node_id):
                self.promise(place).confessed(place, node_id)

    def _is_damaged(self, place: Place, node_id: int) -> bool:
        """Whether the node's records are damaged, or truncated and not fetched again yet."""
        if node_id in self.damages.nodes(place):
            return True
        if node_id not in self.losses.of(place.key):
            self._dropping.discard((place.key, node_id))
        return (place.key, node_id) in self._dropping

    def _forgive(self, place: Place, floor: int) -> None:
        if floor < self.replicas.committed_end(place.key):
            self.given_up.add((place.topic.name, place.number))
            self.transactions.void |= place.topic.name == TRANSACTION_STATE
        self.replicas.forget(place.key, floor)
        history = self._histories.get((place.topic.name, place.number))
        if history is not None:
            partition = place.partition
            leaderless = partition.leader_epoch - (partition.leader >= 0)
            led = self.replicas.last_epoch_led(place.key)
            history.forgive(floor, led, self._world.now_ms, leaderless)

    def is_whole(self) -> bool:
        """Whether no partition lacks anything, according to its mode, and none is being moved."""
        return all(
            not place.partition.is_moving and self.promise(place).is_whole(place) for place in self.places()
        )

    def can_do_without(self, node_id: int) -> bool:
        """Whether everything committed has another copy: an operator may replace the node's disk."""
        return all(
            self.promise(place).can_do_without(place, node_id)
            for place in self.places()
            if node_id in place.partition.replicas
        )

    def bears_power_failure(self, node_id: int) -> bool:
        """Whether a power failure of the node is within its topics' promises."""
        return all(
            self.promise(place).bears(place, node_id)
            for place in self.places()
            if node_id in place.partition.replicas
        )

    def bears_failing_disk(self, node_id: int) -> bool:
        """The same for a disk that fails."""
        return all(
            self.promise(place).bears_failing_disk(place, node_id)
            for place in self.places()
            if node_id in place.partition.replicas
        )

    # --- when it is over ------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """After the faults: every replica equal to the last byte, and every history confirmed by the log."""
        for place in self.places():
            self._check_partition(place)
        self.transactions.check(self.given_up, self._is_deleted)

    def _is_deleted(self, value: Value) -> bool:
        return self.history(value.topic, value.partition).is_deleted(value.value)

    def _check_partition(self, place: Place) -> None:
        key = place.key
        replicas = [node.host.drivers[key] for node in self._nodes() if key in node.host.drivers]
        leader = next(driver for driver in replicas if driver.replica.role is Role.LEADER)
        log = leader.log
        if self.is_compacted(key):
            self._check_newest(place, leader, replicas)
            return
        expected = batches_between(log, log.start_offset, log.end_offset)
        for driver in replicas:
            start = max(log.start_offset, driver.log.start_offset)
            found = batches_between(driver.log, start, driver.log.end_offset)
            if found != [each for each in expected if each[1][0] > start]:
                raise Violation(f"{place.name}: nodes {driver.replica.me} and {leader.replica.me} differ")
        name = (place.topic.name, place.number)
        if name not in self.given_up:
            self.deletions.check(place, log.start_offset, self.losses.count(key))
        history = self._histories.get(name)
        if history is not None:
            entries = entries_between(log, log.start_offset, log.end_offset)
            entries = [entry for entry in entries if entry.offset >= log.start_offset]
            history.check(entries, log.start_offset, leader.replica.epoch)
            if name not in self.given_up:
                self._check_groups(place, [each for each in entries if each.offset >= history.read_from])

    def _check_newest(self, place: Place, leader: ReplicaDriver, replicas: Iterable[ReplicaDriver]) -> None:
        """Every replica has the same newest record of each key, however much each has compacted."""
        expected = newest_of(leader.log)
        for driver in replicas:
            if newest_of(driver.log) != expected:
                raise Violation(f"{place.name}: nodes {driver.replica.me} and {leader.replica.me} differ")

    def _check_groups(self, place: Place, entries: list[Entry]) -> None:
        for group in self.groups:
            if group.topic == place.topic.name:
                group.check(place.number, entries)


def _has_no_other_history(driver: ReplicaDriver, end: int) -> bool:
    """Whether a replica that lost records without knowing it has fetched them again. A leader may have
    written others in their place: these count once every follower has them.
    """
    replica = driver.replica
    followers = replica.progress.values() if replica.role is Role.LEADER else ()
    return all(follower.seen and follower.end_offset >= end for follower in followers)
