"""An operator, active when the faults are over, who decides what the documentation leaves to one: nothing
else, so that a cluster that should act by itself is still seen to fail.

=================== ==========================================================================================
mode                what is decided
=================== ==========================================================================================
``primary-backup``  a primary whose disk was replaced, where one copy was enough for an acknowledgement, leads
                    with what the others have (``tidelog topic promote``); so does one whose disk lied about
                    syncs, if a backup has other records at the same offsets
``isr``             no replica is complete, and the last one that was has a new disk, damaged records, or a
                    disk that lied about syncs: any replica may lead (``tidelog topic elect --unclean``)
``quorum``          a majority of the voters lost data, or the controllers must think so: the longest log
                    continues (``tidelog topic recover``). A change of the mode is withdrawn before
=================== ==========================================================================================

In any mode, a replica whose leader lost records that it knows to be committed is started again, without its
log if the leader still lacks them (:mod:`tidelog.sim.contradicted`). A leader with damaged records that no
other replica has is replaced; a primary, by a promoted backup (:mod:`tidelog.sim.stuck`). A transaction that
hangs in a partition because records were given up is aborted there (:mod:`tidelog.sim.hanging`).

Whether a decision is due follows from the losses and reports that the checkers saw, not from what the cluster
makes of them (:meth:`~tidelog.sim.checkers.promises.promise.Promise.operator_decides`).
"""

from tidelog.config.topic import REPLICATION_MODE, mode_of
from tidelog.controller import configs, leadership, reassignment
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import mode_changes
from tidelog.errors import TidelogError
from tidelog.planner.promises import by_hand
from tidelog.sim import contradicted, hanging, stuck
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.votes import elects_itself
from tidelog.sim.clients.client import Client
from tidelog.sim.cluster import SimCluster
from tidelog.sim.contradicted import Contradicted
from tidelog.sim.hanging import Hanging
from tidelog.sim.stuck import Stuck

LOOKS_MS = 1000.0
PATIENCE = 4
"""How often the same state is seen before it is decided: elections take their time."""


class Operator:
    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._rules = Rulebook(cluster.config)
        self._seen: dict[Key, int] = {}  # how often in a row
        self._hanging: dict[Hanging, int] = {}  # the same
        self._contradicted: dict[Contradicted, int] = {}  # the same
        self._stuck: dict[Stuck, int] = {}  # the same
        self._replaced: dict[Stuck, int] = {}  # leaders that were stopped, in this epoch, for another to lead
        self._client: Client | None = None  # once it is needed
        self.looks = False

    def start(self) -> None:
        """Check now and then, to the end of the run."""
        self.looks = True
        self._cluster.world.after(LOOKS_MS, self._look)

    def _look(self) -> None:
        checker = self._cluster.checker
        waiting = [
            place
            for place in checker.places()
            if checker.promise(place).operator_decides(place, checker.replaced)
        ]
        self._seen = {place.key: self._seen.get(place.key, 0) + 1 for place in waiting}
        for place in waiting:
            if self._seen[place.key] >= PATIENCE and not self._awaits_its_order(place):
                checker.may_force(place)
                self._force(place)
        self._end_hanging()
        self._restart_contradicted()
        self._replace_stuck()
        self.start()

    def _restart_contradicted(self) -> None:
        found = contradicted.find(self._cluster)
        self._contradicted = {each: self._contradicted.get(each, 0) + 1 for each in found}
        for each, seen in self._contradicted.items():
            if seen >= PATIENCE:
                contradicted.restart(self._cluster, each)

    def _replace_stuck(self) -> None:
        self._stuck = {each: self._stuck.get(each, 0) + 1 for each in stuck.find(self._cluster)}
        for each, seen in self._stuck.items():
            if seen >= PATIENCE and not self._replaced:
                place = self._place(each)
                self._cluster.world.note(f"operator: {place.name} is to go on without node {each.node_id}")
                self._replaced[each] = place.partition.leader_epoch
                self._cluster.machines[each.node_id].kill()
        for each, epoch in list(self._replaced.items()):
            place = self._place(each)
            if place.partition.leader >= 0 and place.partition.leader_epoch > epoch:
                del self._replaced[each]
                self._cluster.machines[each.node_id].start()
            elif place.partition.leader < 0:
                self._have_another_lead(place)

    def _have_another_lead(self, place: Place) -> None:
        promotes = by_hand(place.partition.mode) == "promote"
        if promotes and mode_changes.under_way(place.topic):
            self._withdraw_change(place)  # No backup can be promoted while the mode changes.
            return
        self._cluster.checker.may_force(place)
        self._force(place, promotes=promotes)

    def _withdraw_change(self, place: Place) -> None:
        """Other partitions may have changed already. They return by themselves."""
        name, mode = place.topic.name, place.partition.mode
        if mode_of(place.topic.configs) == mode:
            return
        self._cluster.world.note(f"operator: {name} stays in mode {mode}")
        self._cluster.decide(
            lambda image: configs.change_topic(
                image, name, {**image.topics[name].configs, REPLICATION_MODE: mode}, self._rules
            )
        )

    def _place(self, replica: Stuck) -> Place:
        return Place(self._cluster.checker.metadata.newest.topics[replica.topic], replica.partition)

    def _end_hanging(self) -> None:
        self._hanging = {each: self._hanging.get(each, 0) + 1 for each in hanging.find(self._cluster)}
        for each, seen in self._hanging.items():
            if seen >= PATIENCE:
                self._client = self._client or self._cluster.client()
                hanging.abort(self._client, each)

    def _awaits_its_order(self, place: Place) -> bool:
        """The longest log continues, but it cannot be put first while the topic's mode changes: the change is
        withdrawn before. Another partition may never return by itself: then it is not waited for.
        """
        waits = elects_itself(place.partition) and mode_changes.under_way(place.topic)
        if not waits or self._seen[place.key] >= 2 * PATIENCE:
            return False
        self._withdraw_change(place)
        return True

    def _force(self, place: Place, *, promotes: bool = False) -> None:
        """``promotes``: the first replica is down, and no other one leads before it is the first."""
        name, index = place.topic.name, place.number
        self._cluster.world.note(f"operator: {name}-{index} goes on with what there is")
        order = self._longest_first(place) if promotes or elects_itself(place.partition) else []

        def decide(image: ClusterImage) -> list[MetadataRecord]:
            rules = self._rules.at(image)
            records = _in_order(image, place, order, self._rules) if order else []
            return [*records, *leadership.elect(image.apply(records), name, index, rules, unclean=True)]

        self._cluster.decide(decide)

    def _longest_first(self, place: Place) -> list[int]:
        held = {
            machine.node_id: (driver.log.epochs.epoch_at(driver.log.end_offset - 1), driver.log.end_offset)
            for machine, driver in self._cluster.drivers(place.topic.name, place.number)
        }
        return sorted(place.partition.target, key=lambda replica: held.get(replica, (-1, -1)), reverse=True)


def _in_order(image: ClusterImage, place: Place, order: list[int], rules: Rulebook) -> list[MetadataRecord]:
    """The first replica leads. Their order cannot be changed while the topic's mode does."""
    try:
        return reassignment.begin(image, place.topic.name, place.number, order, rules.at(image))
    except TidelogError:
        return []
