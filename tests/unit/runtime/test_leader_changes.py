"""What counts as a change of the leader to this broker, and since when its time is counted."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.replication.replica import Role
from tidelog.runtime.leader_changes import LeaderChanges
from tidelog.types import TopicPartition

ME, OTHER = 1, 2
NAME = TopicPartition("orders", 0)


class Here:
    """This broker, which knows when it lost or last heard of the other one."""

    def __init__(self, *, lost_ms: int | None = None, heard_ms: int = 0, fenced: bool = False) -> None:
        sightings = SimpleNamespace(lost_since_ms=lambda _: lost_ms, last_heard_ms=lambda _: heard_ms)
        brokers = {OTHER: SimpleNamespace(fenced=fenced)}
        partitions = _Partitions()
        node = SimpleNamespace(
            sightings=sightings,
            metadata=SimpleNamespace(image=SimpleNamespace(brokers=brokers)),
            partitions=partitions,
        )
        self.meter = LeaderChanges(cast(Any, node), cast(Any, SimpleNamespace(uptime_ms=lambda: 5000)))
        self._tell = partitions.on_role[0]

    def follows(self, leader: int) -> None:
        self._changed(Role.FOLLOWER, leader, 1)

    def leads(self, epoch: int, unclean_epoch: int = -1) -> None:
        self._changed(Role.LEADER, ME, epoch, unclean_epoch)

    def _changed(self, role: Role, leader: int, epoch: int, unclean_epoch: int = -1) -> None:
        replica = SimpleNamespace(role=role, leader=leader, epoch=epoch)
        driver = SimpleNamespace(unclean_epoch=unclean_epoch)
        self._tell(SimpleNamespace(name=NAME, replica=replica, driver=driver))


class _Partitions:
    def __init__(self) -> None:
        self.on_role: list[Any] = []

    def __iter__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("here", "seconds"),
    [
        (Here(lost_ms=4900, heard_ms=4800), 0.1),  # its connections closed
        (Here(heard_ms=3000, fenced=True), 2.0),  # frozen: they did not
    ],
)
def test_the_time_begins_with_the_last_sign_of_the_leader(here: Here, seconds: float) -> None:
    here.follows(OTHER)
    here.follows(-1)  # Votes: the epoch comes before its leader.
    here.leads(2)
    assert here.meter.changes == here.meter.durations.count == 1
    assert here.meter.durations.total_s == pytest.approx(seconds)


def test_leadership_of_a_living_broker_was_moved() -> None:
    here = Here(heard_ms=4990)
    here.follows(OTHER)
    here.leads(2)
    assert (here.meter.changes, here.meter.durations.count) == (1, 0)


def test_an_epoch_is_one_election_however_its_members_change() -> None:
    here = Here()
    here.leads(3)
    here.leads(3)
    here.leads(4, unclean_epoch=4)
    assert (here.meter.changes, here.meter.unclean) == (2, 1)


def test_partitions_that_are_gone_are_forgotten() -> None:
    here = Here()
    here.leads(3)
    here.meter.forget_all_but(set())
    here.leads(3)
    assert here.meter.changes == 2
