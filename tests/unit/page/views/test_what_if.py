"""What would happen if."""

import pytest

from tidelog.page.views.what_if import faults_of, what_if
from tidelog.planner import what_if as planner
from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import Terms
from unit.page.seen import cluster, facts, partition

ALL = (1, 2, 3)


def test_a_death_counts_on_top_of_what_is_wrong() -> None:
    seen = facts(cluster(partition(1, ALL, (1, 2))), silent=frozenset({3}))
    now = what_if(seen, Faults())
    assert now["topics"][0]["writes_stop"] == now["topics"][0]["writes_stopped"] == 0
    found = what_if(seen, Faults(dead=frozenset({2})))
    assert found["topics"][0]["writes_stop"] == 1
    assert found["worst_single"]["writes"] == 1


@pytest.mark.parametrize(("ended", "stop"), [(True, 0), (False, 1)])
def test_a_frozen_broker_does_not_tell_that_it_has_ended(ended: bool, stop: int) -> None:
    """With a second controller dead, the third serves readers only if it knows that the first has ended."""
    seen = facts(cluster(partition(1, ALL)), silent=frozenset({3}))
    seen.pulses[3] = seen.pulses[3]._replace(ended=ended)
    found = what_if(seen, Faults(dead=frozenset({2})))
    assert found["topics"][0]["reads_stop"] == stop


def test_faults_from_a_request() -> None:
    assert faults_of({"dead": "1,2", "disk_lost": "3"}) == Faults(
        dead=frozenset({1, 2}), disk_lost=frozenset({3})
    )
    with pytest.raises(ValueError, match="x"):
        faults_of({"dead": "x"})


def test_a_lost_disk_of_the_only_copy() -> None:
    seen = facts(cluster(partition(1, (1, 2))), replication_mode="primary-backup", min_insync_replicas="1")
    found = what_if(seen, Faults(disk_lost=frozenset({1})))["topics"][0]
    assert (found["may_lose"], len(found["losses"])) == (1, 1)


def test_internal_topics_on_demand() -> None:
    seen = facts(cluster(partition(1, ALL), topic="__consumer_offsets"))
    assert what_if(seen, Faults())["topics"] == []
    assert len(what_if(seen, Faults(), internal=True)["topics"]) == 1


def test_partitions_that_are_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand partitions an answer took most of a minute."""
    asked = []

    def counted(terms: Terms, where: Placement, faults: Faults) -> Outcome:
        asked.append(where)
        return outcome(terms, where, faults)

    monkeypatch.setattr(planner, "outcome", counted)
    rows = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]
    seen = facts(cluster(*(partition(row[0], row) for row in rows * 500)))
    found = what_if(seen, Faults(dead=frozenset({1, 2})))
    assert found["topics"][0]["writes_stop"] == 2000
    assert found["worst_pair"]["writes"] == 2000
    assert len(asked) < 100
