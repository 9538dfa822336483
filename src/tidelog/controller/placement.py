"""Where replicas go: evenly over the brokers, never two of one partition on the same one."""

from collections.abc import Mapping, Sequence

from tidelog.errors import ErrorCode, TidelogError


def spread(
    brokers: Sequence[int], partitions: int, replicas: int, *, first_partition: int, start: int
) -> list[list[int]]:
    """Replicas for ``partitions`` new partitions, numbered on from ``first_partition``.

    Leaders go round the brokers from ``start``. The distance between a leader and its followers grows with
    every round, so that the followers of one broker's leaders, and with them the load after its death, are
    spread too.
    """
    if replicas > len(brokers):
        raise TidelogError(
            f"replication factor {replicas} is larger than the number of brokers ({len(brokers)})",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    ring = sorted(brokers)
    count = len(ring)
    assignments = []
    for number in range(first_partition, first_partition + partitions):
        leader = (start + number) % count
        shift = (start + number) // count
        assignment = [ring[leader]]
        for follower in range(replicas - 1):
            distance = 1 + (shift + follower) % (count - 1)
            assignment.append(ring[(leader + distance) % count])
        assignments.append(assignment)
    return assignments


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
