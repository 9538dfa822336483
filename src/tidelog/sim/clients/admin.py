"""An administrator: creates and deletes topics, changes settings, moves replicas and leaders, while faults
occur.

It asks the current active controller, and reads the metadata to see the outcome.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.config import MODES, BrokerConfig
from tidelog.config.modes import LEAST_REPLICAS
from tidelog.config.topic import REPLICATION_MODE
from tidelog.controller import configs, leadership, reassignment, topics
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.topics import NewTopic
from tidelog.sim.plan import BY_MODE

if TYPE_CHECKING:
    from tidelog.sim.cluster import SimCluster

PAUSE_MS = (300.0, 3000.0)
AGAIN_MS = 200.0
CHANGE_MS = (100.0, 3000.0)  # between two changes of mode
TOPICS_MAX = 4

Decision = Callable[[ClusterImage], Sequence[MetadataRecord]]


class Admin:
    def __init__(self, cluster: "SimCluster", main_topic: str, config: BrokerConfig, mode: str) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._main_topic = main_topic
        self._config = config
        self._mode = mode  # of the topics it creates
        self.rules = Rulebook(config)
        self._created = 0
        self.topics: list[str] = []  # its own, those that should exist
        self.done: dict[str, int] = {}  # how often each kind of change was requested
        self.stopped = False
        self.pending = 0  # topics to create or delete whose outcome it has not seen
        self.on_created: Callable[[str, NewTopic], None] = lambda name, new: None
        self.on_deleted: Callable[[str], None] = lambda name: None

    def start(self) -> None:
        self._world.after(self._world.chance.uniform(*PAUSE_MS), self._act)

    def _act(self) -> None:
        if self.stopped:
            return
        name, act = self._world.chance.choice(ACTS)
        self.note_act(name)
        act(self)
        self.start()

    def note_act(self, name: str) -> None:
        self.done[name] = self.done.get(name, 0) + 1

    def _note(self, what: str) -> None:
        self._world.note(f"admin: {what}")

    # --- topics ---------------------------------------------------------------------------------------------

    def create(self) -> None:
        if len(self.topics) >= TOPICS_MAX:
            return
        chance = self._world.chance
        self._created += 1
        name = f"x{self._created}"
        replicas = max(chance.randint(1, min(3, len(self._cluster.brokers))), LEAST_REPLICAS[self._mode])
        settings = {"replication.mode": self._mode, **BY_MODE[self._mode].other_configs(chance, replicas)}
        if chance.random() < 0.5:
            settings["flush.messages"] = "1"
        new = NewTopic(name, chance.randint(1, 2), replicas, {}, settings)
        self._note(f"create {name} with {new.partitions} partitions, {replicas} replicas {settings}")
        self.topics.append(name)
        topic_id = self._world.uuid()
        self._insist(
            lambda image: [topics.create(image, new, self._config, topic_id)],
            lambda image: name in image.topics or name not in self.topics,
            lambda: self.on_created(name, new),
        )

    def delete(self) -> None:
        if not self.topics:
            return
        name = self._world.chance.choice(self.topics)
        known = self._cluster.checker.metadata.newest.topics.get(name)
        if known is None:
            return
        self._note(f"delete {name}")
        self.topics.remove(name)
        self.on_deleted(name)
        self._insist(
            lambda image: [topics.delete(image, name, self._config)],
            lambda image: name not in image.topics,
            lambda: None,
        )

    def grow(self) -> None:
        topic = self._some_topic()
        if topic is not None and topic.name in self.topics:
            total = len(topic.partitions) + 1
            self._try(f"grow {topic.name} to {total} partitions", lambda image: [
                topics.add_partitions(image, topic.name, total, None)
            ])  # fmt: skip

    def configure(self) -> None:
        topic, chance = self._some_topic(), self._world.chance
        if topic is None or topic.name not in self.topics:
            return
        wanted = {**topic.configs, "segment.bytes": str(chance.choice([4096, 16384]))}
        wanted |= BY_MODE[self._mode].other_configs(chance, len(topic.partitions[0].replicas))
        self._try(
            f"configure {topic.name} {wanted}",
            lambda image: configs.change_topic(image, topic.name, wanted, self.rules),
        )

    # --- modes ----------------------------------------------------------------------------------------------

    def start_changing(self) -> None:
        """Change the replication mode of the main topic repeatedly."""
        self._world.after(self._world.chance.uniform(*CHANGE_MS), self._change)

    def _change(self) -> None:
        topic = self._cluster.checker.metadata.newest.topics.get(self._main_topic)
        if self.stopped or topic is None:
            return
        mode = self._world.chance.choice(sorted(MODES))
        self.note_act(f"to {mode}")
        self._try(
            f"replicate {topic.name} by {mode}",
            lambda image: configs.change_topic(
                image, topic.name, {**image.topics[topic.name].configs, REPLICATION_MODE: mode}, self.rules
            ),
        )
        self.start_changing()

    # --- replicas and leaders -------------------------------------------------------------------------------

    def move(self) -> None:
        """Other replicas for one partition, or a new order of the same."""
        topic, chance = self._some_topic(), self._world.chance
        if topic is None:
            return
        index = chance.randrange(len(topic.partitions))
        target = chance.sample(list(self._cluster.brokers), len(topic.partitions[index].target))
        self._try(
            f"move {topic.name}-{index} to {target}",
            lambda image: reassignment.begin(image, topic.name, index, target, self.rules.at(image)),
        )

    def cancel(self) -> None:
        moving = list(reassignment.ongoing(self._cluster.checker.metadata.newest))
        if moving:
            place = self._world.chance.choice(moving)
            name, index = place.topic.name, place.number
            self._try(
                f"cancel the move of {name}-{index}",
                lambda image: reassignment.cancel(image, name, index, self.rules.at(image)),
            )

    def elect(self) -> None:
        topic = self._some_topic()
        if topic is not None:
            index = self._world.chance.randrange(len(topic.partitions))
            self._try(
                f"give {topic.name}-{index} its preferred leader",
                lambda image: leadership.elect(image, topic.name, index, self.rules.at(image), unclean=False),
            )

    # --- asking ---------------------------------------------------------------------------------------------

    def _some_topic(self) -> TopicImage | None:
        known = list(self._cluster.checker.metadata.newest.topics.values())
        return self._world.chance.choice(known) if known else None

    def _try(self, what: str, decide: Decision) -> None:
        """Once; a refusal is fine."""
        self._note(what)
        self._cluster.decide(decide)

    def _insist(
        self, decide: Decision, is_so: Callable[[ClusterImage], bool], done: Callable[[], None]
    ) -> None:
        """Retry until it is done."""
        self.pending += 1

        def look() -> None:
            if is_so(self._cluster.checker.metadata.newest):
                self.pending -= 1
                done()
                return
            self._cluster.decide(lambda image: [] if is_so(image) else decide(image))
            self._world.after(AGAIN_MS, look)

        look()


ACTS: tuple[tuple[str, Callable[[Admin], None]], ...] = (
    ("create", Admin.create),
    ("create", Admin.create),
    ("delete", Admin.delete),
    ("grow", Admin.grow),
    ("configure", Admin.configure),
    ("move", Admin.move),
    ("move", Admin.move),
    ("cancel", Admin.cancel),
    ("elect", Admin.elect),
)
