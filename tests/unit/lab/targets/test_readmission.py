"""The next fault waits until controllers with new disks vote again."""

from uuid import UUID

import pytest

from tidelog.lab.faults.injected import Injected
from tidelog.lab.targets.readmission import Readmissions

OLD, NEW, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


class Cluster:
    def __init__(self) -> None:
        self.voters = {1: OLD, 2: OTHER, 3: OTHER}
        self.healed: list[str] = []
        self.readmissions = Readmissions(lambda: self.voters)

    def wipe(self, *brokers: int) -> Injected:
        return self.readmissions.wiping(
            brokers, lambda: Injected(f"wiped {brokers}", lambda: self.healed.append("started"))
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_it_is_awaited_from_the_start_of_the_broker_on(cluster: Cluster) -> None:
    fault = cluster.wipe(1)
    assert cluster.readmissions.are_over()  # It is down: nothing is awaited that cannot come.
    fault.heal()
    assert cluster.healed == ["started"]
    assert not cluster.readmissions.are_over()
    cluster.voters[1] = NEW
    assert cluster.readmissions.are_over()


def test_all_of_them_are_awaited(cluster: Cluster) -> None:
    cluster.wipe(1, 2).heal()
    cluster.voters[1] = NEW
    assert not cluster.readmissions.are_over()
    cluster.voters[2] = NEW
    assert cluster.readmissions.are_over()


def test_no_answer_is_no_readmission(cluster: Cluster) -> None:
    cluster.wipe(1).heal()
    cluster.voters = {}
    assert not cluster.readmissions.are_over()


def test_a_broker_that_is_no_controller_is_not_awaited(cluster: Cluster) -> None:
    cluster.wipe(4).heal()
    assert cluster.readmissions.are_over()
