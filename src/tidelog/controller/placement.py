"""Where replicas go: evenly over the brokers, never two of one partition on the same one, and on different
racks where there are enough.
"""

from collections.abc import Mapping, Sequence

from tidelog.errors import ErrorCode, TidelogError

Racks = Mapping[int, str | None]


def spread(
    brokers: Sequence[int],
    partitions: int,
    replicas: int,
    *,
    first_partition: int,
    start: int,
    racks: Racks | None = None,
) -> list[list[int]]:
    """Replicas for ``partitions`` new partitions, numbered on from ``first_partition``.

    Leaders go round the brokers from ``start``. The distance between a leader and its followers grows with
    every round, so that the followers of one broker's leaders, and with them the load after its death, are
    spread too. Followers on racks that the partition is not on yet go first.
    """
    if replicas > len(brokers):
        raise TidelogError(
            f"replication factor {replicas} is larger than the number of brokers ({len(brokers)})",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    ring = _alternating(sorted(brokers), racks or {})
    count = len(ring)
    assignments = []
    for number in range(first_partition, first_partition + partitions):
        leader = (start + number) % count
        shift = (start + number) // count
        others = [ring[(leader + 1 + (shift + place) % (count - 1)) % count] for place in range(count - 1)]
        assignments.append(_pick(ring[leader], others, replicas, racks or {}))
    return assignments


def _alternating(brokers: Sequence[int], racks: Racks) -> list[int]:
    """The brokers in an order in which neighbours stand on different racks, as far as that is possible."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker), []).append(broker)
    rows = [by_rack[rack] for rack in sorted(by_rack, key=lambda rack: rack or "")]
    longest = max(map(len, rows), default=0)
    return [row[place] for place in range(longest) for row in rows if place < len(row)]


def _pick(leader: int, others: Sequence[int], replicas: int, racks: Racks) -> list[int]:
    chosen = [leader]
    used = {racks.get(leader)}
    waiting = list(others)
    while len(chosen) < replicas:
        fresh = [broker for broker in waiting if racks.get(broker) not in used]
        follower = (fresh or waiting)[0]
        waiting.remove(follower)
        chosen.append(follower)
        # Once every rack has as many as the others, another round begins.
        used = {*used, racks.get(follower)} if fresh else {racks.get(follower)}
    return chosen


def check_manual(
    assignments: Mapping[int, Sequence[int]],
    brokers: Sequence[int],
    *,
    first_partition: int,
    replicas: int | None = None,
) -> list[list[int]]:
    """A user's own placement, as a list by partition; refused when it has holes, repeats or strangers.

    Every partition has as many copies as the others: ``replicas`` where the topic has partitions already.
    """
    expected = range(first_partition, first_partition + len(assignments))
    if sorted(assignments) != list(expected):
        raise _refuse(f"partitions must be numbered {expected.start} to {expected.stop - 1} without gaps")
    factor = len(assignments[first_partition]) if replicas is None else replicas
    result = []
    for number in expected:
        placed = list(assignments[number])
        if not placed:
            raise _refuse(f"partition {number} has no replicas")
        if len(set(placed)) != len(placed):
            raise _refuse(f"partition {number} names a broker twice: {placed}")
        if len(placed) != factor:
            raise _refuse(f"partition {number} has {len(placed)} replicas, the others have {factor}")
        strangers = [broker for broker in placed if broker not in brokers]
        if strangers:
            raise _refuse(f"partition {number} names brokers that do not exist: {strangers}")
        result.append(placed)
    return result


def _refuse(message: str) -> TidelogError:
    return TidelogError(message, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
