"""Many partitions are placed in slices before they are decided upon."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from tidelog.broker.requests import submission
from tidelog.broker.requests.submission import PLACED_PER_SLICE
from tidelog.broker.slices import in_slices
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered, ClusterFounded
from tidelog.controller.topics import NewTopic
from unit.broker.fakes import ME, FakeBroker, value_of

MANY = 2 * PLACED_PER_SLICE + 50


def cluster(count: int = 3) -> ClusterImage:
    nodes = [
        BrokerRegistered(node, UUID(int=node), "h", 1, broker_epoch=node) for node in range(1, count + 1)
    ]
    return ClusterImage().apply([ClusterFounded("c"), *nodes])


@pytest.mark.parametrize("steps", [0, 1, 9, 10, 11, 25])
def test_all_steps_are_taken_a_few_at_a_time(broker: FakeBroker, steps: int) -> None:
    taken: list[int] = []

    def take() -> Iterator[None]:
        for each in range(steps):
            taken.append(each)
            yield

    in_slices(broker.services, take(), 10, lambda: taken.append(-1))
    assert len(taken) == (steps + 1 if steps < 10 else 10)
    broker.services.settle()
    assert taken == [*range(steps), -1]


def test_creation_takes_several_turns(broker: FakeBroker) -> None:
    topic = {"name": "t", "num_partitions": MANY, "replication_factor": 1}
    future = broker.begin("create_topics", topics=[topic], validate_only=True)
    turns = 0
    while not future.is_complete:
        broker.services._soon.popleft()()
        turns += 1
    assert turns == MANY // PLACED_PER_SLICE
    assert value_of(future).topics[0].error_code == 0


def test_few_partitions_wait_for_nothing(broker: FakeBroker) -> None:
    topic = {"name": "t", "num_partitions": PLACED_PER_SLICE, "replication_factor": 1}
    assert broker.begin("create_topics", topics=[topic], validate_only=True).is_complete


def test_what_would_be_refused_is_refused_at_once(broker: FakeBroker) -> None:
    topic = {"name": "t", "num_partitions": MANY, "replication_factor": 7}
    future = broker.begin("create_topics", topics=[topic], validate_only=True)
    assert "larger than the number of brokers" in value_of(future).topics[0].error_message


@pytest.mark.parametrize("mode", ["isr", "primary-backup", "quorum"])
def test_a_draft_is_what_would_be_placed_at_once(broker: FakeBroker, mode: str) -> None:
    image, new = cluster(), NewTopic("t", 50, 3, {}, {"replication.mode": mode})
    draft = topics.draft_creation(image, new, broker.config)
    assert [*draft.steps()] == [None] * 50
    at_once = topics.create(image, new, broker.config, UUID(int=1))
    drafted = topics.create(image, new, broker.config, UUID(int=1), draft)
    assert drafted == at_once
    assert drafted.assignments is draft.placed


def test_a_draft_does_not_count_where_the_brokers_have_changed(broker: FakeBroker) -> None:
    new = NewTopic("t", 50, 3)
    draft = topics.draft_creation(cluster(3), new, broker.config)
    list(draft.steps())
    made = topics.create(cluster(4), new, broker.config, UUID(int=1), draft)
    assert any(4 in replicas for replicas in made.assignments)


def test_growing_takes_several_turns_as_well(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "PLACED_PER_SLICE", 10)
    broker.create("t")
    future = broker.begin("create_partitions", topics=[{"name": "t", "count": 36, "assignments": None}])
    assert not future.is_complete
    broker.services.settle()
    assert value_of(future).results[0].error_code == 0
    assert len(broker.store.image.topics["t"].partitions) == 36
    assert {each.replicas for each in broker.store.image.topics["t"].partitions} == {(ME,)}
