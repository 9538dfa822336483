"""Follows in the metadata which other brokers restart and come back, and tells the replicas of this node."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from tidelog.broker.slices import in_slices
from tidelog.controller.image import ClusterImage
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host
from tidelog.services import Services

INVITED_AT_ONCE = 100  # replicas whose leaders look for members that have come back: about 3 ms


class OtherBrokers:
    def __init__(self, host: Host, services: Services, on_fenced: Callable[[], None]) -> None:
        """``on_fenced``: a broker was fenced."""
        self._host = host
        self._services = services
        self._on_fenced = on_fenced
        self.unfenced: AbstractSet[int] = frozenset()  # ids of brokers, this one included
        self.epochs: dict[int, int] = {}  # of the latest registrations
        self._able: set[tuple[int, int]] = set()  # (broker, epoch) of those that may join in-sync sets

    def forget_earlier_runs(self, image: ClusterImage) -> list[int]:
        """Forget the progress of restarted brokers: a broker may have fewer records after its restart.
        Returns the brokers of which a new process has registered.
        """
        epochs = {broker.broker_id: broker.broker_epoch for broker in image.brokers.values()}
        known, self.epochs = self.epochs, epochs
        registered = [broker_id for broker_id, epoch in epochs.items() if known.get(broker_id) != epoch]
        for broker_id in registered:
            if broker_id in known and broker_id != self._host.me:
                self._host.broker_restarted(broker_id)
        return registered

    def invite_returned(self, image: ClusterImage) -> None:
        """Let leaders propose brokers that are unfenced or restarted. A proposal with a fenced member was
        refused, and nothing else would repeat it. An absence may be too short to be seen as fenced, so the
        broker epoch is compared as well.
        """
        brokers = [broker for broker in image.brokers.values() if not broker.fenced]
        unfenced = {broker.broker_id for broker in brokers}
        lost, self.unfenced = self.unfenced - unfenced, unfenced
        able = {(broker.broker_id, broker.broker_epoch) for broker in brokers if not broker.leaving}
        returned = {broker_id for broker_id, _ in able - self._able}
        self._able = able
        if lost:
            self._on_fenced()
        if returned:
            steps = self._invite(list(self._host.drivers.values()), returned)
            in_slices(self._services, steps, INVITED_AT_ONCE, lambda: None, urgent=True)

    def _invite(self, drivers: Iterable[ReplicaDriver], returned: AbstractSet[int]) -> Iterator[None]:
        for driver in drivers:
            if not driver.closed and not returned.isdisjoint(driver.replica.progress):
                driver.run(driver.replica.invite())
                yield
