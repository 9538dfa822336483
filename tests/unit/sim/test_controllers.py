"""When the syncs of a controller may fail in a run of controllers alone: while the others are a majority."""

import pytest

from tidelog.errors import TidelogError
from tidelog.replication.voters import Voter
from tidelog.sim.controllers import ControllersCluster


@pytest.fixture
def three() -> ControllersCluster:
    """Nodes 1 to 3 vote, node 4 observes."""
    cluster = ControllersCluster(1, 3, 1)
    cluster.start()
    assert cluster.world.run_while(lambda: not cluster.is_whole(), 20_000)
    return cluster


def may_fail(cluster: ControllersCluster) -> list[int]:
    return [node_id for node_id, machine in cluster.machines.items() if cluster.may_fail_syncs(machine)]


def test_one_of_three(three: ControllersCluster) -> None:
    assert may_fail(three) == [1, 2, 3, 4]
    three.machines[1].damaged = True
    assert may_fail(three) == [1, 4]


def test_only_the_one_whose_disk_was_replaced(three: ControllersCluster) -> None:
    """With its empty log it takes itself for a voter, and the others do not."""
    follower = next(node_id for node_id in (1, 2, 3) if node_id not in three.leaders())
    three.machines[follower].lose_disk()
    three.machines[follower].start()
    assert may_fail(three) == [follower, 4]


def test_none_of_two(three: ControllersCluster) -> None:
    leader, told = three.leader(), list[TidelogError | None]()
    assert leader is not None
    removed = next(node_id for node_id in (1, 2, 3) if node_id not in three.leaders())
    leader.voters.remove(Voter(removed), 3000, told.append)
    assert three.world.run_while(lambda: not told, 20_000)
    assert told == [None]
    assert may_fail(three) == [removed, 4]


def test_none_of_three_while_one_may_be_removed(three: ControllersCluster) -> None:
    three.machines[4].kill()  # So it is not known whether the change is complete.
    three.change_voters()
    assert may_fail(three) == [4]


def test_nobody_is_removed_before_the_disk_is_known_to_be_sound(three: ControllersCluster) -> None:
    machine = three.machines[1]
    assert three.may_fail_syncs(machine)
    machine.damaged = True
    three.change_voters()
    assert not _was_asked(three)
    machine.damaged = False
    three.change_voters()
    assert _was_asked(three)


def _was_asked(cluster: ControllersCluster) -> bool:
    return any("operator: " in str(line) for line in cluster.world.trace)
