"""One simulation: a phase with faults, in which nothing may be lost, and a healthy one, in which
everything must work.
"""

from typing import Any

from tidelog.controller.topics import TopicWish
from tidelog.invariant import invariant
from tidelog.replication.replica import Role
from tidelog.sim.checkers import Violation, batches_between
from tidelog.sim.clients import Producer
from tidelog.sim.cluster import SimCluster
from tidelog.sim.network import Weather
from tidelog.sim.quorum import run_quorum

TOPIC = "t"
PARTITIONS = 3


def run(mode: str, seed: int) -> dict[str, Any]:
    """One seed of one mode; every third cluster has five nodes."""
    size = 5 if seed % 3 == 0 else 3
    return (run_quorum if mode == "quorum" else run_isr)(seed, size=size)


def run_isr(seed: int, *, size: int = 3, fault_ms: float = 20_000, calm_ms: float = 15_000) -> dict[str, Any]:
    cluster = SimCluster(seed, size)
    try:
        return _run(cluster, fault_ms, calm_ms)
    except BaseException as error:
        error.add_note("\n".join(list(cluster.world.trace)[-40:]))
        raise


def _run(cluster: SimCluster, fault_ms: float, calm_ms: float) -> dict[str, Any]:
    world, chance = cluster.world, cluster.world.chance
    cluster.start()
    replicas = min(3, len(cluster.nodes))
    configs = {"min.insync.replicas": "2", "flush.messages": chance.choice(["1", "9223372036854775807"])}
    synced = configs["flush.messages"] == "1"
    cluster.create_topic(TopicWish(TOPIC, PARTITIONS, replicas, {}, configs))
    world.run_until(world.now_ms + 3000)
    cluster.producers = [Producer(cluster, number, TOPIC, number % PARTITIONS, -1) for number in range(6)]
    for producer in cluster.producers:
        producer.start()
    weather = cluster.network.weather
    weather.lost = chance.choice([0.0, 0.0, 0.01, 0.1])
    weather.doubled = chance.choice([0.0, 0.02, 0.1])
    weather.late = chance.choice([0.0, 0.02, 0.1])
    end_ms = world.now_ms + fault_ms

    def trouble() -> None:
        if world.now_ms < end_ms:
            _one_fault(cluster, synced)
            world.after(chance.uniform(200, 2500), trouble)

    world.after(chance.uniform(500, 2000), trouble)
    world.run_until(end_ms)
    return _calm_down(cluster, calm_ms)


def _one_fault(cluster: SimCluster, synced: bool) -> None:
    world, chance = cluster.world, cluster.world.chance
    node = chance.choice(list(cluster.nodes.values()))
    # Without flush.messages=1 a power failure of several brokers may take acknowledged records: it is
    # documented so, and not looked for here.
    kinds = ["kill", "pause", "cut", "heal", "slow", "start", "start", "kill all"]
    if synced:
        kinds += ["power", "power all"]
    kind = chance.choice(kinds)
    world.note(f"fault {kind} {node.node_id}")
    if kind == "kill":
        node.kill()
    elif kind == "power":
        node.lose_power()
    elif kind == "pause" and node.services is not None:
        services = node.services
        services.pause()
        world.after(chance.uniform(10, 5000), services.resume)
    elif kind == "cut":
        for other in cluster.nodes:
            if other != node.node_id and chance.random() < 0.7:
                cluster.network.cut(node.node_id, other)
                if chance.random() < 0.8:
                    cluster.network.cut(other, node.node_id)
    elif kind == "heal":
        cluster.network.heal()
    elif kind == "slow":
        cluster.network.slow[node.node_id] = chance.uniform(5, 200)
    elif kind in ("kill all", "power all"):
        for each in cluster.nodes.values():
            each.kill() if kind == "kill all" else each.lose_power()
    elif kind == "start":
        for each in cluster.nodes.values():
            if not each.alive:
                each.start()


def _calm_down(cluster: SimCluster, calm_ms: float) -> dict[str, Any]:
    world = cluster.world
    world.note("calm")
    cluster.network.heal()
    cluster.network.weather = Weather()
    for node in cluster.nodes.values():
        if node.services is not None:
            node.services.resume()
        else:
            node.start()
    world.run_until(world.now_ms + calm_ms)
    before = [len(producer.acknowledged) for producer in cluster.producers]
    world.run_until(world.now_ms + 2000)
    for producer, count in zip(cluster.producers, before, strict=True):
        if len(producer.acknowledged) <= count:
            raise Violation("a healthy cluster takes no writes:\n" + _story(cluster))
        producer.stopped = True
    world.run_until(world.now_ms + 5000)
    _check_converged(cluster)
    acknowledged = _check_acknowledged(cluster)
    invariant(acknowledged > 0, "a run without load proves nothing")
    return {
        "seed": world.seed,
        "digest": world.digest(),
        "steps": world.steps,
        "messages": cluster.network.messages,
        "sent": sum(producer.sent for producer in cluster.producers),
        "acknowledged": acknowledged,
        "simulated_ms": world.elapsed_ms,
        "trace": list(world.trace),
    }


def _check_converged(cluster: SimCluster) -> None:
    """After the faults: one leader, everybody in sync, everybody equal."""
    for index in range(PARTITIONS):
        replicas = [hosted for _, hosted in cluster.hosted(TOPIC, index)]
        ends = {hosted.log.end_offset for hosted in replicas}
        leaders = [hosted for hosted in replicas if hosted.replica.role is Role.LEADER]
        if len(ends) != 1 or len(leaders) != 1 or len(leaders[0].replica.in_sync) != len(replicas):
            raise Violation(f"partition {index} did not converge:\n" + _story(cluster))


def _check_acknowledged(cluster: SimCluster) -> int:
    """Every acknowledged value lies in the leader's log, at the offset that was told, in the order of
    acknowledgement.
    """
    count = 0
    for number, producer in enumerate(cluster.producers):
        replicas = cluster.hosted(TOPIC, number % PARTITIONS)
        log = next(hosted.log for _, hosted in replicas if hosted.replica.role is Role.LEADER)
        found = {base: batch[2] for base, batch in batches_between(log, log.start_offset, log.end_offset)}
        previous = -1
        for value, offset, crc in producer.acknowledged:
            if found.get(offset) != crc:
                raise Violation(f"value {value} of producer {number}, acknowledged at {offset}, is lost")
            if offset <= previous:
                raise Violation(f"value {value} of producer {number} lies at {offset}, behind a later one")
            previous = offset
            count += 1
    return count


def _story(cluster: SimCluster) -> str:
    lines = []
    for node in cluster.nodes.values():
        if node.node is None:
            lines.append(f"node {node.node_id} is dead")
            continue
        lines += [hosted.replica.story() for hosted in node.node.host.hosted.values()]
    return "\n".join(lines)
