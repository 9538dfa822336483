"""Somebody who looks after the cluster when the faults are over, and decides what the documentation leaves to
an operator: nothing else, so that what a cluster should do by itself is still seen to be missing.

A primary whose disk was replaced does not lead where one copy was enough for an ok: only it need have had the
newest records. Whoever replaced the disk knows that, and says that it shall lead with what the others have
(``tidelog topic promote``).
"""

from tidelog.controller import leadership
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import is_restoring
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.promises.primary_backup import PrimaryBackupPromise
from tidelog.sim.cluster import SimCluster

LOOKS_MS = 1000.0


class Operator:
    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._rules = Rulebook(cluster.config)
        self.looks = False

    def start(self) -> None:
        """Look now and then, to the end of the run."""
        self.looks = True
        self._cluster.world.after(LOOKS_MS, self._look)

    def _look(self) -> None:
        for place in self._cluster.checker.places():
            promise = self._cluster.checker.promise(place)
            if isinstance(promise, PrimaryBackupPromise) and self._must_decide(place, promise):
                self._cluster.checker.may_force(place)
                self._force(place)
        self.start()

    def _must_decide(self, place: Place, promise: PrimaryBackupPromise) -> bool:
        partition = place.partition
        # The metadata says that the last leader's disk was replaced; the primary may be another one by now.
        replaced = not self._cluster.checker.replaced.isdisjoint(partition.replicas)
        unknown = partition.last_leader < 0
        return is_restoring(partition) and replaced and unknown and promise.enough(place) <= 1

    def _force(self, place: Place) -> None:
        name, index = place.topic.name, place.number
        self._cluster.world.note(f"operator: {name}-{index} goes on with what there is")
        self._cluster.decide(
            lambda image: leadership.elect(image, name, index, self._rules.at(image), unclean=True)
        )
