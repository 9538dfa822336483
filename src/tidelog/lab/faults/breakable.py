"""A local cluster for tests, with faults as methods: ``cluster.cut(1, 2)``.

The same faults as those of experiments, by the same code. A fault lasts until it is healed, one by its own
``heal()``, all by that of the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.cluster import LabCluster, Needs
from tidelog.lab.faults.inject import Injected, Parties, inject
from tidelog.lab.faults.needs import NONE, RELAY
from tidelog.lab.faults.parties import CLIENTS, Party
from tidelog.lab.local.broker import START_TIMEOUT_S, Broker, Setting
from tidelog.lab.local.cluster import Cluster

NETWORK, DISK, POWER = "network", "disk", "power"
HOOKS = (NETWORK, DISK, POWER)


class BreakableCluster(Cluster):
    """``hooks`` are what its faults need: ``network`` for lines, ``disk`` for disks and clocks, ``power`` for
    power failures. Killing, freezing and stopping needs none.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        settings: Mapping[str, Setting] | None = None,
        *,
        hooks: Iterable[str] = (),
        kind: type[Broker] = Broker,
    ) -> None:
        super().__init__(directory, brokers, settings, kind=kind)
        wanted = set(hooks)
        if unknown := sorted(wanted - set(HOOKS)):
            raise ValueError(f"There are no faults of kind {unknown[0]!r}; use some of {', '.join(HOOKS)}.")
        needs = Needs(
            RELAY if NETWORK in wanted else NONE, disk=bool(wanted & {DISK, POWER}), journal=POWER in wanted
        )
        self.lab = LabCluster(directory, ClusterSpec(brokers=brokers), needs, cluster=self)
        self._faults: list[Injected] = []

    @property
    def bootstrap(self) -> str:
        """The clients' ``bootstrap.servers``; through the relay, if there is one."""
        wiring = getattr(getattr(self, "lab", None), "wiring", None)
        return super().bootstrap if wiring is None else str(wiring.bootstrap)

    def cut(self, one: Party, *others: Party) -> Injected:
        """No bytes between them, in both directions. Without others: between it and everything else."""
        return self._inject("cut", Parties((one,), others))

    def one_way_cut(self, source: Party, *targets: Party) -> Injected:
        """No bytes from the source to the targets; without targets: to everything else."""
        return self._inject("one-way-cut", Parties((source,), targets))

    def delay(self, one: Party, *others: Party, ms: float, jitter_ms: float = 0.0) -> Injected:
        """Every byte between them comes so much later, each way."""
        return self._inject("delay", Parties((one,), others), ms=ms, jitter_ms=jitter_ms)

    def lose(self, one: Party, *others: Party, percent: float) -> Injected:
        """So many packets between them are lost, which TCP repairs after a while."""
        return self._inject("loss", Parties((one,), others), percent=percent)

    def slow_line(self, one: Party, *others: Party, kbytes_per_s: float) -> Injected:
        return self._inject("bandwidth", Parties((one,), others), kbytes_per_s=kbytes_per_s)

    def slow_disk(self, *brokers: int, ms: float) -> Injected:
        """Each write and sync takes so much longer."""
        return self._inject("slow-disk", Parties(brokers), ms=ms)

    def fill_disk(self, *brokers: int) -> Injected:
        """Files cannot grow. Healing restarts the broker, which does not use a failed log again."""
        return self._inject("full-disk", Parties(brokers))

    def fail_disk(self, *brokers: int) -> Injected:
        """Writes and syncs fail. Healing restarts the broker."""
        return self._inject("failing-disk", Parties(brokers))

    def flip_bit(self, *brokers: int, topic: str = "") -> Injected:
        """In the oldest segment of the topic."""
        return self._inject("flipped-bit", Parties(brokers, topic=topic))

    def wipe(self, *brokers: int) -> Injected:
        """kill -9 and an empty disk. Healing starts it."""
        return self._inject("wipe", Parties(brokers))

    def power_fail(self, *brokers: int) -> Injected:
        """kill -9, and everything that was not synced is gone. Healing starts it; so does ``start()``."""
        return self._inject("power-failure", Parties(brokers))

    def set_clock(self, *brokers: int, seconds: float) -> Injected:
        """The wall clock jumps forward, or back if negative."""
        return self._inject("clock-jump", Parties(brokers), seconds=seconds)

    def heal(self) -> None:
        """Undo all faults that are still there, the newest first."""
        while self._faults:
            self._faults.pop().heal()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        self.lab.reap()
        super().start(timeout_s)

    def stop(self) -> None:
        self.lab.reap()
        super().stop()

    def close(self) -> None:
        """End everything that was started."""
        self.lab.close()

    def _inject(self, fault: str, parties: Parties, **parameters: object) -> Injected:
        injected = inject(self.lab, fault, parties, parameters)
        self.lab.reap()  # what a fault has ended is down, and can be started
        self._faults.append(injected)
        return injected


@contextmanager
def breakable_cluster(
    directory: Path,
    brokers: int = 3,
    settings: Mapping[str, Setting] | None = None,
    *,
    hooks: Iterable[str] = HOOKS,
    kind: type[Broker] = Broker,
) -> Iterator[BreakableCluster]:
    """A cluster for the length of a ``with`` block. In the end faults are healed, and it stops cleanly."""
    cluster = BreakableCluster(directory, brokers, settings, hooks=hooks, kind=kind)
    try:
        cluster.start()
        yield cluster
        cluster.heal()
        cluster.await_ready()
        cluster.stop()
    finally:
        cluster.close()


__all__ = ["CLIENTS", "HOOKS", "BreakableCluster", "breakable_cluster"]
