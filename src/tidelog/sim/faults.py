"""Faults drawn from the seed: processes, power, network, disks, clocks.

Each run has its own mixture: half of the faults are left out, so that some runs see one kind over and over,
which a run with a little of everything never would. Every fault is in the trace; :meth:`Nemesis.calm` reverts
its effects.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.broker.coordinators.markers import WRITE_TXN_MARKERS
from tidelog.broker.transactions.admission import ADD_PARTITIONS_TO_TXN
from tidelog.controller.messages import InSyncAsk, OfflineAsk, PromiseConfirmedAsk, RegisterAsk
from tidelog.errors import ErrorCode
from tidelog.replication.messages import FetchAsk, VoteResponded
from tidelog.sim.clients.client import Reply
from tidelog.sim.decay import DECAYS
from tidelog.sim.disk import EIO
from tidelog.sim.links import LinkAsk
from tidelog.sim.machine import SYNC, Machine
from tidelog.sim.network import Network, Weather
from tidelog.sim.rot import KINDS
from tidelog.sim.world import World

HOUR_MS = 3_600_000
GIVEN_UP_MS = 3000  # Longer than replica.lag.time.max.ms of these clusters.


class Fault(NamedTuple):
    """One kind of fault. ``strike`` does it and returns its target, in a few words."""

    name: str
    family: str
    strike: Callable[["Nemesis"], str]
    weight: int = 2


def is_promise(message: Any) -> bool:
    """A promise that must hold from now on, whatever happens to its sender."""
    match message:
        case FetchAsk():
            return bool(message.items)
        case VoteResponded():
            return message.response.granted and not message.response.pre
        case Reply():
            return message.error is ErrorCode.NONE and message.offset >= 0
    return False


def is_report(message: Any) -> bool:
    """Brokers' requests to the controllers, except heartbeats."""
    return isinstance(
        getattr(message, "ask", None), RegisterAsk | InSyncAsk | OfflineAsk | PromiseConfirmedAsk
    )


def is_about_transactions(message: Any) -> bool:
    """Messages of brokers about transactions."""
    return isinstance(message, LinkAsk) and message.api_key in (WRITE_TXN_MARKERS, ADD_PARTITIONS_TO_TXN)


HELD_BACK: frozenset[str] = frozenset({"sever"})
"""Faults that break a promise, or were tried too little. They occur only in plans that name them."""


class Nemesis:
    def __init__(
        self,
        world: World,
        network: Network,
        machines: Mapping[int, Machine],
        *,
        only: Sequence[str] = (),
        without: Sequence[str] = (),
        numbers: Collection[int] | None = None,
        pace_ms: tuple[float, float] = (100, 2000),
        brokers: Sequence[int] | None = None,
        replaceable: Callable[[Machine], bool] = lambda machine: False,
        decay: Mapping[str, Callable[[int], str]] | None = None,
        rot: Callable[[str], str] = lambda kind: "",
        may_fail: Callable[[Machine], bool] = lambda machine: True,
        may_fail_syncs: Callable[[Machine], bool] = lambda machine: True,
        favourites: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self.world = world
        self.network = network
        self.machines = machines
        self.brokers = list(machines) if brokers is None else list(brokers)
        self.replaceable = replaceable  # whether a machine's disk may be lost now
        self.decay = decay or {}  # name of a fault → does it to batches on a node's disk, and says to which
        self.may_fail = may_fail  # whether a machine's disk may fail now
        self.may_fail_syncs = may_fail_syncs  # whether it may also drop what it cannot sync
        self.rot = rot  # the same in a file of some kind beside the records
        self._favourites = favourites  # critical nodes: leaders, the active controller
        self._pace_ms = pace_ms
        self._numbers = numbers  # which of the drawn faults are done; None: all
        self.drawn = 0  # how many were drawn, done or not
        self._raged = 0  # how often
        self.told: list[str] = []  # the faults that were done, as in the trace
        self.raging = False
        self.struck: dict[str, int] = {}  # how often each fault was done
        with world.apart("mixture"):
            self._faults = self._mixture(frozenset(only), frozenset(without))
        self._weights = _weights(self._faults)

    def _mixture(self, only: frozenset[str], without: frozenset[str]) -> list[Fault]:
        """Faults and families of them share a prefix. A fault requested by name is never left out."""
        chance = self.world.chance
        wanted = [fault for fault in FAULTS if without.isdisjoint((fault.name, fault.family))]
        always = {*only, "recovery"}
        chosen = []
        for fault in wanted:
            named = not always.isdisjoint((fault.name, fault.family))
            if named or (not only and chance.random() < 0.5 and fault.name not in HELD_BACK):
                chosen.append(fault)
        self.world.note("faults: " + ", ".join(fault.name for fault in chosen if fault.family != "recovery"))
        return chosen

    def rage(self) -> None:
        """Do faults repeatedly, until :meth:`calm`."""
        self.raging = True
        self._raged += 1
        weather = self.network.weather
        with self.world.apart(f"weather {self._raged}") as chance:
            weather.lost = chance.choice([0.0, 0.0, 0.01, 0.1])
            weather.doubled = chance.choice([0.0, 0.02, 0.1])
            weather.late = chance.choice([0.0, 0.02, 0.1])
            pause_ms = chance.uniform(*self._pace_ms)
        self.world.after(pause_ms, self._again)

    def _again(self) -> None:
        if not self.raging:
            return
        self.drawn += 1
        # Each fault has its own random source, so that the others stay the same when one is left out.
        with self.world.apart(f"fault {self.drawn}") as chance:
            pause_ms = chance.uniform(*self._pace_ms)
            [fault] = chance.choices(self._faults, self._weights)
            if self._numbers is None or self.drawn in self._numbers:
                self.do(fault)
        self.world.after(pause_ms, self._again)

    def do(self, fault: Fault) -> None:
        self.struck[fault.name] = self.struck.get(fault.name, 0) + 1
        text = f"fault {self.drawn}: {fault.name} {fault.strike(self)}".rstrip()
        self.world.note(text)
        self.told.append(f"{self.world.elapsed_ms:10.1f} {text}")

    def calm(self) -> None:
        """Repair everything, start all. A process whose disk had failed is restarted."""
        self.raging = False
        self.world.note("calm")
        self.network.heal()
        self.network.copied = None
        self.network.weather = Weather()
        for machine in self.machines.values():
            machine.clock.run_at(1.0)
            machine.clock.jumped_ms = 0.0
            machine.repair()
            machine.resume()
            machine.ambush = None
            if machine.damaged:
                machine.kill()
            machine.start()
            machine.damaged = False

    # --- for faults -----------------------------------------------------------------------------------------

    def victim(self) -> Machine:
        """Any node; half of the time a critical one."""
        chance = self.world.chance
        favourites = list(self._favourites())
        if favourites and chance.random() < 0.5:
            return self.machines[chance.choice(favourites)]
        return chance.choice(list(self.machines.values()))

    def later(self, most_ms: float, callback: Callable[[], None]) -> None:
        """The end of a temporary fault. Also after :meth:`calm`: it must do no harm then."""
        self.world.after(self.world.chance.uniform(10, most_ms), callback)

    def groups(self) -> tuple[list[int], list[int]]:
        nodes = list(self.machines)
        self.world.chance.shuffle(nodes)
        cut = self.world.chance.randint(1, len(nodes) - 1)
        return sorted(nodes[:cut]), sorted(nodes[cut:])


def _weights(faults: Sequence[Fault]) -> list[float]:
    """As many repairs as faults, whatever the mixture."""
    mending = sum(fault.weight for fault in faults if fault.family == "recovery")
    breaking = sum(fault.weight for fault in faults if fault.family != "recovery")
    return [fault.weight * (breaking / mending if fault.family == "recovery" else 1.0) for fault in faults]


# --- processes ----------------------------------------------------------------------------------------------


def _kill(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.kill()
    return str(machine.node_id)


def _restart(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.kill()
    machine.start()
    return str(machine.node_id)


def _kill_all(nemesis: Nemesis) -> str:
    for machine in nemesis.machines.values():
        machine.kill()
    return ""


def _pause(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.pause()
    nemesis.later(5000, machine.resume)
    return str(machine.node_id)


def _start(nemesis: Nemesis) -> str:
    dead = [machine for machine in nemesis.machines.values() if not machine.alive]
    for machine in dead:
        machine.start()
    return " ".join(str(machine.node_id) for machine in dead)


# --- power --------------------------------------------------------------------------------------------------


def _power(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.lose_power()
    return str(machine.node_id)


def _power_all(nemesis: Nemesis) -> str:
    for machine in nemesis.machines.values():
        machine.lose_power()
    return ""


def _blink(nemesis: Nemesis) -> str:
    """The power returns at once: the machine is up again before it is missed."""
    machine = nemesis.victim()
    machine.lose_power()
    nemesis.later(100, machine.start)
    return str(machine.node_id)


def _worst_moment(nemesis: Nemesis) -> str:
    """The power fails right after a promise was sent: a vote, an acknowledging fetch, an acknowledgement to a
    client. Random faults would hardly ever hit that moment.
    """
    machine = nemesis.victim()
    machine.ambush = is_promise
    return str(machine.node_id)


# --- the network --------------------------------------------------------------------------------------------


def _cut(nemesis: Nemesis) -> str:
    """One node loses some of its links, some of them in one direction only."""
    node, chance = nemesis.victim().node_id, nemesis.world.chance
    lost = []
    for other in nemesis.machines:
        if other != node and chance.random() < 0.7:
            out, back = chance.choice([(True, True), (True, True), (True, False), (False, True)])
            if out:
                nemesis.network.cut(node, other)
            if back:
                nemesis.network.cut(other, node)
            lost.append(f"{'<' if back else ''}-{'>' if out else ''}{other}")
    return f"{node} {' '.join(lost)}"


def _strand(nemesis: Nemesis) -> str:
    """A broker loses the other brokers, but no controller: it is not fenced, and has no followers."""
    broker = nemesis.world.chance.choice(nemesis.brokers)
    nemesis.network.part([broker], nemesis.brokers)
    return str(broker)


def _desert(nemesis: Nemesis) -> str:
    """A leader's followers lose it; when they have left the in-sync set, it dies and they return: what it
    committed alone has no other copy.
    """
    machine, network = nemesis.victim(), nemesis.network
    network.part([machine.node_id], nemesis.brokers)

    def die() -> None:
        for other in nemesis.brokers:
            network.mend(machine.node_id, other)
            network.mend(other, machine.node_id)
        if nemesis.raging:
            machine.kill()

    nemesis.world.after(GIVEN_UP_MS, die)
    return str(machine.node_id)


def _halves(nemesis: Nemesis) -> str:
    ones, others = nemesis.groups()
    nemesis.network.part(ones, others)
    return f"{ones} {others}"


def _bridge(nemesis: Nemesis) -> str:
    """Two groups that are connected only through one node, which sees a majority that does not exist."""
    ones, others = nemesis.groups()
    middle = nemesis.world.chance.choice([*ones, *others])
    nemesis.network.part([one for one in ones if one != middle], [one for one in others if one != middle])
    return f"{ones} {others} over {middle}"


def _flap(nemesis: Nemesis) -> str:
    """Links of one node flap."""
    node, chance = nemesis.victim().node_id, nemesis.world.chance
    others = [other for other in nemesis.machines if other != node and chance.random() < 0.7]
    period_ms, network = chance.uniform(20, 800), nemesis.network

    def toggle(rounds: int, down: bool) -> None:
        if down and nemesis.raging:
            network.part([node], others)
        else:
            for other in others:
                network.mend(node, other)
                network.mend(other, node)
        if rounds and nemesis.raging:
            nemesis.world.after(period_ms, lambda: toggle(rounds - 1, not down))

    toggle(chance.randint(3, 12), True)
    return f"{node} from {others} every {period_ms:.0f} ms"


def _close(nemesis: Nemesis) -> str:
    """A connection breaks; one end may not notice (half-closed)."""
    chance = nemesis.world.chance
    one, other = chance.sample(list(nemesis.machines), 2)
    noticed = chance.choice([[one], [one, other]])
    nemesis.network.close(one, other, noticed)
    return f"{one} {other}, noticed by {noticed}"


def _sever(nemesis: Nemesis) -> str:
    """A firewall closes the connections of a node and keeps them closed; one side may not notice. It is
    fenced at once, and lives.
    """
    node, chance, network = nemesis.victim().node_id, nemesis.world.chance, nemesis.network
    others = [other for other in nemesis.machines if other != node and chance.random() < 0.8]
    noticed = chance.choice(["both", "both", "the node", "the others"])
    network.part([node], others)
    for other in others:
        ends = {"both": (node, other), "the node": (node,), "the others": (other,)}[noticed]
        network.close(node, other, ends)
    return f"{node} from {others}, noticed by {noticed}"


def _old_letters(nemesis: Nemesis) -> str:
    """Reports of brokers to controllers, and messages about transactions, arrive a second time, long after
    they were true.
    """
    nemesis.network.copied = lambda message: is_report(message) or is_about_transactions(message)
    return ""


def _slow_network(nemesis: Nemesis) -> str:
    node = nemesis.victim().node_id
    nemesis.network.slow[node] = nemesis.world.chance.uniform(5, 200)
    return f"{node} by {nemesis.network.slow[node]:.0f} ms"


def _heal(nemesis: Nemesis) -> str:
    nemesis.network.heal()
    return ""


# --- disks --------------------------------------------------------------------------------------------------


def _slow_disk(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.disk_delay_ms = 5.0, nemesis.world.chance.uniform(10, 400)
    if machine.services is not None:
        machine.services.disk_delay_ms = machine.disk_delay_ms
    return str(machine.node_id)


def _failing(*operations: str) -> Callable[[Nemesis], str]:
    def strike(nemesis: Nemesis) -> str:
        machine = nemesis.victim()
        if not nemesis.may_fail(machine):
            return f"{machine.node_id}: others have lost too much"
        if SYNC in operations and not nemesis.may_fail_syncs(machine):
            return f"{machine.node_id}: the other voters may be no majority"
        if machine.must_stay_on and SYNC in operations:
            return f"{machine.node_id}: damage could not be told from what a failed sync has lost"
        machine.disk.failing.update(dict.fromkeys(operations, EIO))
        machine.damaged = True
        nemesis.later(3000, machine.disk.failing.clear)
        return str(machine.node_id)

    return strike


def _lie(nemesis: Nemesis) -> str:
    """A disk reports syncs of a topic's segments that it has not done. In half of the cases the power fails
    meanwhile; otherwise the drive writes them later.
    """
    candidates = [machine for machine in nemesis.machines.values() if nemesis.replaceable(machine)]
    if not candidates or any(machine.lied for machine in nemesis.machines.values()):
        return "nobody's"
    machine = nemesis.world.chance.choice(candidates)
    machine.lie(is_segment)

    def power() -> None:
        if machine.lied and nemesis.raging:
            nemesis.world.note(f"node {machine.node_id}, whose disk has lied, loses power")
            machine.lose_power()
            nemesis.later(100, machine.start)

    nemesis.later(2000, power if nemesis.world.chance.random() < 0.5 else machine.stop_lying)
    return str(machine.node_id)


def is_segment(path: str) -> bool:
    return path.endswith(".log") and "/__cluster_metadata-" not in path


def _full(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    if not nemesis.may_fail(machine):
        return f"{machine.node_id}: others have lost too much"
    machine.disk.capacity_bytes = machine.disk.used_bytes() + nemesis.world.chance.randint(0, 5000)
    machine.damaged = True
    return str(machine.node_id)


def _decay(name: str) -> Callable[[Nemesis], str]:
    """Damage to batches. In an old segment it is found by the next read."""

    def strike(nemesis: Nemesis) -> str:
        struck = nemesis.decay[name](nemesis.victim().node_id) if name in nemesis.decay else ""
        for machine in nemesis.machines.values():
            if not machine.alive and machine.decayed:
                nemesis.later(2000, machine.start)
        return struck

    return strike


def _rot(kind: str) -> Callable[[Nemesis], str]:
    return lambda nemesis: nemesis.rot(kind)


def _empty(nemesis: Nemesis) -> str:
    """One at a time: replacing a second disk before the first one is full again gives up what was on both."""
    candidates = [machine for machine in nemesis.machines.values() if nemesis.replaceable(machine)]
    if not candidates:
        return "nobody's"
    machine = nemesis.world.chance.choice(candidates)
    machine.lose_disk()
    return str(machine.node_id)


def _repair(nemesis: Nemesis) -> str:
    """A disk works again, and its process is restarted."""
    broken = [machine for machine in nemesis.machines.values() if machine.damaged]
    for machine in broken:
        machine.repair()
        machine.kill()
        machine.start()
        machine.damaged = False
    return " ".join(str(machine.node_id) for machine in broken)


# --- clocks -------------------------------------------------------------------------------------------------


def _jump(nemesis: Nemesis) -> str:
    machine, chance = nemesis.victim(), nemesis.world.chance
    # Less than producer.id.expiration.ms: a clock that jumps over that makes a broker forget its idempotent
    # producers, as in Kafka.
    step_ms = chance.choice([-1, 1]) * chance.choice([50, 5000, HOUR_MS])
    machine.clock.jumped_ms += step_ms
    return f"{machine.node_id} by {step_ms} ms"


def _drift(nemesis: Nemesis) -> str:
    machine = nemesis.victim()
    machine.clock.run_at(nemesis.world.chance.uniform(0.95, 1.05))
    return f"{machine.node_id} to {machine.clock.speed:.3f}"


FAULTS = (
    Fault("kill", "process", _kill, 3),
    Fault("restart", "process", _restart),
    Fault("kill all", "process", _kill_all, 1),
    Fault("pause", "process", _pause, 3),
    Fault("power", "power", _power, 3),
    Fault("power all", "power", _power_all, 1),
    Fault("blink", "power", _blink),
    Fault("worst moment", "power", _worst_moment, 3),
    Fault("cut", "network", _cut, 3),
    Fault("strand", "network", _strand),
    Fault("desert", "network", _desert),
    Fault("halves", "network", _halves),
    Fault("bridge", "network", _bridge),
    Fault("flap", "network", _flap),
    Fault("close", "network", _close),
    Fault("slow network", "network", _slow_network),
    Fault("old letters", "network", _old_letters),
    Fault("slow disk", "disk", _slow_disk),
    Fault("failing writes", "disk", _failing("write", "reserve", "create"), 1),
    Fault("failing syncs", "disk", _failing("sync"), 1),
    Fault("full disk", "disk", _full, 1),
    Fault("lying syncs", "disk", _lie, 1),
    *(Fault(name, "damage", _decay(name), 1) for name in DECAYS),
    Fault("empty disk", "damage", _empty, 1),
    *(Fault(f"rot: {kind}", "rot", _rot(kind), 1) for kind in KINDS),
    Fault("clock jump", "clock", _jump),
    Fault("clock drift", "clock", _drift),
    Fault("heal", "recovery", _heal, 6),
    Fault("start", "recovery", _start, 10),
    Fault("repair", "recovery", _repair, 3),
    Fault("sever", "network", _sever, 3),  # Last, so that seeds without it stay the same.
)

MENDING = frozenset(fault.name for fault in FAULTS if fault.family == "recovery")
"""Drawn like a fault, but repairs."""
