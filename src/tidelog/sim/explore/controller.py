"""The controllers of a small world: the real active controller over a metadata log that commits at once."""

from collections.abc import Sequence

from tidelog.config import BrokerConfig
from tidelog.controller import leader_assignment
from tidelog.controller.controller import Controller, SessionTiming
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.effects import Fence, Submit
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import ControllerAsk, ControllerGot, HeartbeatAsk
from tidelog.controller.records import MetadataRecord
from tidelog.controller.store import Decide, Done
from tidelog.errors import TidelogError
from tidelog.sim.explore.node import CONTROLLER


class _Store:
    """A metadata log with a permanent majority."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.committed_offset = 0
        self.leader = CONTROLLER

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            self.commit(decide(self.image))
        except TidelogError as error:
            done(error)
        else:
            done(None)

    def commit(self, records: Sequence[MetadataRecord]) -> None:
        if records:
            self.image = self.image.apply(records)


class _Controller(Controller):
    """Every broker was heard a moment ago."""

    def _is_heard(self, broker_id: int) -> bool:
        return True

    def settle(self, image: ClusterImage) -> list[MetadataRecord]:
        return list(leader_assignment.assign_leaders(image, self._rules.at(image)))


class SmallController:
    """Keeps nothing between two steps but the image."""

    def __init__(self, config: BrokerConfig) -> None:
        self._store = _Store()
        self._new = _Controller(self._store, config, SessionTiming())
        self._new.activate(0)

    def _at(self, image: ClusterImage) -> ControllerDriver:
        """Sessions are not part of a state: no broker has just registered."""
        self._store.image = image
        return ControllerDriver(self._new.copied(), self._store)

    def commit(self, image: ClusterImage, records: Sequence[MetadataRecord]) -> ClusterImage:
        self._store.image = image
        self._store.commit(records)
        return self._store.image

    def handle(self, image: ClusterImage, ask: ControllerAsk) -> tuple[ClusterImage, list[ControllerGot]]:
        answers: list[ControllerGot] = []
        self._at(image).handle(ask, 0, answers.append)
        return self._store.image, answers

    def fence(self, image: ClusterImage, broker_id: int) -> ClusterImage:
        self._at(image).run([Submit(Fence(broker_id))])
        return self._store.image

    def unfence(self, image: ClusterImage, broker_id: int) -> ClusterImage:
        """A broker with all metadata sends a heartbeat."""
        epoch = image.brokers[broker_id].broker_epoch
        return self.handle(image, HeartbeatAsk(broker_id, epoch, self._store.committed_offset))[0]

    def settle(self, image: ClusterImage) -> ClusterImage:
        """The effects of changed settings."""
        return self.commit(image, self._new.settle(image))
