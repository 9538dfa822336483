"""A manager: does to a running cluster what a user may do at any time, while faults occur.

The operations of a run are part of its plan (``Plan.operations``), so that a failure can be tried with and
without each of them. They have their own random source: a run without operations is unchanged.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.config.modes import QUORUM
from tidelog.controller import brokers, configs, leadership, reassignment
from tidelog.controller.availability import DRAIN_SETTING
from tidelog.controller.image import TopicImage
from tidelog.controller.topics import INTERNAL_TOPICS
from tidelog.errors import ErrorCode
from tidelog.replication.modes import MODES
from tidelog.replication.voters import Voter
from tidelog.sim.budget import Budget
from tidelog.sim.checkers.promises import Place
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.client import Reply, RequestCall

if TYPE_CHECKING:
    from tidelog.sim.cluster import SimCluster

PAUSE_MS = (200.0, 2500.0)
AWAY_MS = (100.0, 4000.0)  # how long a broker stays down that was stopped in order
VOTER_PATIENCE_MS = 3000
LEAST_VOTERS = 3  # A manager leaves as many, plus one that is being added.
DELETE_RECORDS = 21
DELETE_TIMEOUT_MS = 1500
NEVER = "9223372036854775807"

FLUSH = {"flush.messages": ("1", "1", "3", NEVER), "flush.ms": ("20", "500", NEVER)}
COPIES = {"min.insync.replicas": ("1", "2", "3")}
UNCLEAN = {"unclean.leader.election.enable": ("true", "false", "false")}
LAYOUT = {"segment.bytes": ("4096", "16384"), "index.interval.bytes": ("100", "4096")}
RETENTION = {"retention.bytes": ("3000", "20000", "-1"), "retention.ms": ("2000", "10000", "-1")}


class Manager:
    def __init__(
        self,
        cluster: "SimCluster",
        admin: Admin,
        budget: Budget,
        main_topic: str,
        seed: int,
        operations: Sequence[str],
    ) -> None:
        self._cluster = cluster
        self._budget = budget
        self._world = cluster.world
        self._admin = admin
        self._main_topic = main_topic
        self._chance = random.Random(f"manager {seed}")
        self._operations = [(name, OPERATIONS[name]) for name in operations]
        self._client = cluster.client()
        self.done: dict[str, int] = {}  # how often each operation was tried

    def start(self) -> None:
        if self._operations:
            self._world.after(self._chance.uniform(*PAUSE_MS), self._act)

    def _act(self) -> None:
        if self._admin.stopped:
            return
        name, operate = self._chance.choice(self._operations)
        self.done[name] = self.done.get(name, 0) + 1
        operate(self)
        self.start()

    def _note(self, what: str) -> None:
        self._world.note(f"manager: {what}")

    def _topic(self) -> TopicImage | None:
        """The main one, half of the time."""
        known = self._cluster.checker.metadata.newest.topics
        if self._main_topic in known and self._chance.random() < 0.5:
            return known[self._main_topic]
        others = [topic for name, topic in known.items() if name not in INTERNAL_TOPICS]
        return self._chance.choice(others) if others else None

    def _place(self) -> Place | None:
        known = list(self._cluster.checker.metadata.newest.topics.values())
        if not known:
            return None
        topic = self._chance.choice(known)
        return Place(topic, self._chance.randrange(len(topic.partitions)))

    # --- settings -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """When records are synced. The plan decides about voters that do not sync."""
        topic = self._topic()
        if topic is not None and all(partition.mode != QUORUM for partition in topic.partitions):
            self._set(topic, FLUSH)

    def copies(self) -> None:
        """How many replicas an acknowledgement stands for."""
        self._set(self._topic(), COPIES)

    def unclean(self) -> None:
        """Whether a replica that lacks records may lead."""
        self._set(self._topic(), UNCLEAN)

    def layout(self) -> None:
        """How large segments are, and how dense their indexes."""
        self._set(self._topic(), LAYOUT)

    def retain(self) -> None:
        """How much is kept."""
        self._set(self._topic(), RETENTION)

    def _set(self, topic: TopicImage | None, values: Mapping[str, tuple[str, ...]]) -> None:
        """One of these settings. Those without a meaning in the topic's mode are refused."""
        if topic is None:
            return
        name = self._chance.choice(sorted(values))
        value = self._chance.choice(values[name])
        self._note(f"{topic.name}: {name}={value}")
        self._cluster.decide(
            lambda image: (
                configs.change_topic(
                    image, topic.name, {**image.topics[topic.name].configs, name: value}, self._admin.rules
                )
                if topic.name in image.topics
                else []
            )
        )

    # --- records --------------------------------------------------------------------------------------------

    def delete_records(self) -> None:
        """Everything before some offset of what is committed."""
        topic = self._topic()
        if topic is None:
            return
        place = Place(topic, self._chance.randrange(len(topic.partitions)))
        leader = place.partition.leader
        end = self._cluster.checker.replicas.committed_end(place.key)
        if leader < 0 or not end:
            return
        offset = self._chance.randint(0, end)
        self._note(f"delete the records of {place.name} before {offset}")
        wanted = {"partition_index": place.number, "offset": offset}
        body = {"topics": [{"name": topic.name, "partitions": [wanted]}], "timeout": DELETE_TIMEOUT_MS}
        call = RequestCall(self._client.client_id, self._client.next_number(), DELETE_RECORDS, body)
        losses = self._cluster.checker.losses.count(place.key)
        self._cluster.checker.delete_records(place, offset)

        def answered(reply: Reply) -> None:
            if reply.body is None:
                return
            [answer] = reply.body.topics[0].partitions
            if answer.error_code == ErrorCode.NONE:
                self._cluster.checker.deletions.told(place.key, offset, losses)

        self._client.ask(leader, call, answered)

    # --- brokers --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """A broker stops cleanly, and returns after a while."""
        machine = self._cluster.machines[self._chance.choice(list(self._cluster.machines))]
        away_ms = self._chance.uniform(*AWAY_MS)
        if machine.alive:
            self._note(f"stop {machine.node_id}")
            machine.stop(lambda: self._world.after(away_ms, machine.start))

    def drain(self) -> None:
        """Drain a broker, or end that."""
        broker = str(self._chance.choice(list(self._cluster.brokers)))
        drained = self._chance.random() < 0.5
        self._note(f"{'drain' if drained else 'use'} broker {broker}")

        def wanted(current: dict[str, str]) -> dict[str, str]:
            return {**current, DRAIN_SETTING: "true"} if drained else _without(current, DRAIN_SETTING)

        self._cluster.decide(
            lambda image: configs.change_broker(
                image, broker, wanted(dict(image.broker_configs.get(broker, {}))), self._admin.rules
            )
        )

    def unregister(self) -> None:
        """Unregister a broker. It is refused while it is unfenced or has replicas; when it starts, it
        registers.
        """
        broker = self._chance.choice(list(self._cluster.brokers))
        self._note(f"unregister {broker}")
        self._cluster.decide(lambda image: brokers.unregister(image, broker))

    # --- leaders --------------------------------------------------------------------------------------------

    def force(self) -> None:
        """Force a leader for a partition without one, whatever is lost then. The manager has checked, as the
        documentation asks: no broker considers itself the leader, and none can be elected by brokers that are
        only stopped or disconnected. What those acknowledge before they learn of it would be dropped.
        """
        places = [place for place in self._leaderless() if not self._cluster.is_led(place)]
        self._force([place for place in places if not self._cluster.checker.promise(place).can_elect(place)])

    def force_blindly(self) -> None:
        """Without checking, where a leader that is only disconnected stops before it is replaced. In
        ``quorum`` and ``primary-backup`` it continues: there an operator has to check. So does a leader that
        has not heard of an added replica, which may be the one that is forced.
        """
        places = [place for place in self._leaderless() if not self._cluster.is_led_unawares(place)]
        self._force([place for place in places if MODES[place.partition.mode].successors.are_appointed])

    def _leaderless(self) -> list[Place]:
        return [place for place in self._cluster.checker.places() if place.partition.leader < 0]

    def _force(self, places: Sequence[Place]) -> None:
        if not places:
            return
        place = self._chance.choice(places)
        name, index = place.topic.name, place.number
        self._note(f"force a leader for {place.name}")
        self._cluster.checker.may_force(place)
        self._cluster.decide(
            lambda image: leadership.elect(image, name, index, self._admin.rules.at(image), unclean=True)
        )

    def promote(self) -> None:
        """Make another replica the first."""
        place = self._place()
        if place is None or place.partition.is_moving:
            return
        first, *rest = place.partition.target
        if not rest:
            return
        order = [*rest, first]
        name, index = place.topic.name, place.number
        self._note(f"promote {order[0]} in {place.name}")
        self._cluster.decide(
            lambda image: reassignment.begin(image, name, index, order, self._admin.rules.at(image))
        )

    # --- controllers ----------------------------------------------------------------------------------------

    def voters(self) -> None:
        """Remove a controller, or add a removed one again. None is removed while another one may have lost
        its disk.
        """
        machine = self._cluster.active()
        if machine is None or machine.node is None or machine.services is None:
            return
        quorum, chance = machine.node.metadata, self._chance
        latest = quorum.voters.latest
        outside = [node for node in self._cluster.voters if node not in latest]
        if outside and (len(latest) < LEAST_VOTERS or chance.random() < 0.6):
            node = chance.choice(outside)
            other = self._cluster.machines[node].node
            voter = Voter(node, None if other is None else other.metadata.election.directory)
            change, what = quorum.voters.add, "add"
        elif len(latest) >= LEAST_VOTERS and self._budget.controllers_are_whole():
            voter = Voter(chance.choice(sorted(latest.ids)))
            change, what = quorum.voters.remove, "remove"
        else:
            return
        self._note(f"{what} controller {voter.voter_id}")
        machine.services.run(lambda: change(voter, VOTER_PATIENCE_MS, self._cluster.decided))


def _without(settings: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key != name}


OPERATIONS: dict[str, Callable[[Manager], None]] = {
    "flush": Manager.flush,
    "copies": Manager.copies,
    "unclean": Manager.unclean,
    "layout": Manager.layout,
    "retain": Manager.retain,
    "delete records": Manager.delete_records,
    "stop": Manager.stop,
    "drain": Manager.drain,
    "unregister": Manager.unregister,
    "force": Manager.force,
    "force blindly": Manager.force_blindly,
    "promote": Manager.promote,
    "voters": Manager.voters,
}
