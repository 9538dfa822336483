"""Who leads what when brokers come and go, where there are too many partitions to look at all at once."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from tidelog.controller import review
from tidelog.controller.controller import NEWCOMER_MS
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.messages import HeartbeatAsk
from tidelog.controller.records import MetadataRecord, TopicCreated, TopicDeleted
from tidelog.controller.review import REVIEWED_AT_ONCE, LeaderReview, is_large
from tidelog.controller.store import Decide, Done
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.active_controllers import TOPIC_ID, A, B, C, Cluster, Store

TICK_MS = 50
COUNT = 10


class Slow(Cluster):
    """Slices wait until they are let go."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        super().__init__(**{"node.id": 9})
        self.controller._soon = self.due.append

    def next_slice(self) -> None:
        self.due.pop(0)()

    def settle(self) -> None:
        for _ in range(100):
            if self.due:
                self.next_slice()
        assert not self.due

    def leaders(self) -> list[int]:
        return [partition.leader for partition in self.store.image.topics["t"].partitions]

    def fence(self, broker: int) -> None:
        self.beating.discard(broker)
        for other in self.beating:
            self.beat(other)
        self.controller.broker_lost(broker, self.now_ms, dead=True)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Three brokers, and ten partitions that the first one leads, of which four are looked at at once."""
    made = Slow()
    made.come(A, B, C)
    made.pass_time(NEWCOMER_MS + TICK_MS)
    made.store.write([TopicCreated("t", TOPIC_ID, [[A, B, C]] * COUNT, {})])
    monkeypatch.setattr(review, "REVIEWED_AT_ONCE", 4)
    return made


def test_a_broker_is_fenced_first_and_its_partitions_follow_in_slices(cluster: Slow) -> None:
    cluster.fence(A)
    assert A not in cluster.unfenced()
    assert cluster.leaders() == [A] * COUNT
    cluster.pass_time(TICK_MS)  # The others are heard.
    seen = []
    while cluster.due:
        cluster.next_slice()
        seen.append(cluster.leaders().count(B))
    assert sorted(set(seen) - {0}) == [4, 8, 10]
    assert cluster.leaders() == [B] * COUNT


def test_nobody_returns_before_what_ended_its_leaderships_is_written(cluster: Slow) -> None:
    cluster.fence(A)
    cluster.pass_time(TICK_MS)
    cluster.next_slice()
    assert cluster.beat(A).fenced  # It knows all that is committed so far.
    assert A not in cluster.unfenced()
    cluster.settle()
    known = cluster.store.committed_offset
    assert cluster.beat(A, offset=known - 1).fenced
    assert not cluster.beat(A, offset=known).fenced


def test_a_slice_that_may_not_be_committed_is_looked_at_again(cluster: Slow) -> None:
    cluster.fence(A)
    cluster.pass_time(TICK_MS)
    cluster.store.refusal = TidelogError("too late", ErrorCode.REQUEST_TIMED_OUT)
    cluster.settle()
    assert A in cluster.leaders()
    assert cluster.beat(A).fenced
    cluster.store.refusal = None
    cluster.controller.tick(cluster.now_ms, cluster.now_ms)
    assert cluster.beat(A).fenced
    cluster.settle()
    assert cluster.leaders() == [B] * COUNT
    assert not cluster.beat(A).fenced


def test_what_a_process_led_before_it_started_ends_with_its_registration(cluster: Slow) -> None:
    """Its end went unnoticed. With a leadership left, it would lead an epoch a second time."""
    cluster.beating.discard(A)
    cluster.register(A, run=2)
    assert A not in cluster.leaders()


def test_a_broker_may_stop_when_others_lead(cluster: Slow) -> None:
    assert not cluster.beat(A, leaving=True).may_stop
    assert cluster.leaders() == [A] * COUNT
    assert not cluster.beat(A, leaving=True).may_stop  # What others can lead they do not lead yet.
    assert A in cluster.unfenced()
    cluster.settle()
    assert cluster.leaders() == [B] * COUNT
    assert cluster.beat(A, leaving=True).may_stop


def test_a_new_controller_looks_at_what_its_predecessor_has_left(cluster: Slow) -> None:
    cluster.fence(A)
    cluster.controller.deactivate()
    cluster.settle()
    assert cluster.leaders() == [A] * COUNT
    cluster.controller.activate(cluster.now_ms)
    assert cluster.beat(A).fenced
    for other in (B, C):
        cluster.beat(other)
    cluster.settle()
    assert cluster.leaders() == [B] * COUNT


def image_of(*sizes: int) -> ClusterImage:
    created: list[Any] = [
        TopicCreated(f"t{place}", UUID(int=place + 1), [[A]] * size, {}) for place, size in enumerate(sizes)
    ]
    return ClusterImage().apply(created)


def test_large_is_what_does_not_fit_into_a_slice() -> None:
    assert not is_large(image_of(REVIEWED_AT_ONCE - 1, 1))
    assert is_large(image_of(REVIEWED_AT_ONCE, 1))


def test_slices_go_across_topics_and_leave_out_those_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "REVIEWED_AT_ONCE", 4)
    looked_at: list[tuple[str, int, int]] = []

    def look(topic: TopicImage, available: Any, rules: Any, start: int, end: int) -> list[Any]:
        looked_at.append((topic.name, start, end))
        return []

    monkeypatch.setattr(review, "assign_topic_leaders", look)
    image = image_of(3, 6, 2)
    leaders = LeaderReview()
    leaders.begin(image)
    image = image.apply([TopicDeleted(image.topics["t2"].topic_id)])
    slices = 0
    while leaders.has_more:
        leaders.take_some(image, lambda topic: None, lambda broker: 0)  # type: ignore[arg-type, return-value]
        slices += 1
    assert looked_at == [("t0", 0, 4), ("t1", 0, 1), ("t1", 1, 5), ("t1", 5, 9)]
    assert slices == 3


class HeldStore(Store):
    """Decisions are written at once, and committed one by one when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.decided = self.image
        self.held = False
        self.pending: list[tuple[Sequence[MetadataRecord], Done]] = []

    def submit(self, decide: Decide, done: Done) -> None:
        try:
            if self.refusal is not None:
                raise self.refusal
            records = decide(self.decided)
        except TidelogError as refusal:
            done(refusal)
            return
        self.decided = self.decided.apply(records)
        self.pending.append((records, done))
        while self.pending and not self.held:
            self.commit_next()

    def commit_next(self) -> None:
        records, done = self.pending.pop(0)
        super().write(records)
        done(None)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        super().write(records)
        self.decided = self.image


@pytest.fixture
def held(cluster: Slow) -> HeldStore:
    store = HeldStore()
    store.write([])
    store.image = store.decided = cluster.store.image
    store.committed_offset = cluster.store.committed_offset
    cluster.store = cluster.controller._store = cluster.controller._controller._store = store
    return store


def test_a_review_goes_on_until_its_last_slice_is_committed(cluster: Slow, held: HeldStore) -> None:
    """The commit of an earlier one is not the end, although all slices are taken by then."""
    cluster.fence(A)
    cluster.pass_time(TICK_MS)
    assert cluster.beat(A).fenced  # It is heard again, so its next heartbeat does not begin another review.
    held.held = True
    cluster.settle()
    held.commit_next()
    assert A in cluster.leaders()
    got: list[Any] = []
    ask = HeartbeatAsk(A, cluster.epoch(A), held.committed_offset, False)
    cluster.controller.handle(ask, cluster.now_ms, got.append)
    held.held = False
    while held.pending:
        held.commit_next()
    assert got[0].fenced
    assert cluster.leaders() == [B] * COUNT
    assert not cluster.beat(A).fenced


def end_when_all_slices_are_taken(patch: pytest.MonkeyPatch) -> None:
    """The rule of the last slice taken out: it matters only that there is no other."""

    def committed(self: LeaderReview, number: int) -> None:
        if not self.has_more and not self.must_repeat:
            self.end()

    patch.setattr(LeaderReview, "committed", committed)


def end_with_the_last_slice_taken(patch: pytest.MonkeyPatch) -> None:
    """Its commit is not waited for."""
    original = LeaderReview.take_some

    def take_some(self: LeaderReview, *about: Any) -> list[MetadataRecord]:
        records = original(self, *about)
        if not self.has_more:
            self.end()
        return records

    patch.setattr(LeaderReview, "take_some", take_some)


@pytest.mark.parametrize("mutation", [end_when_all_slices_are_taken, end_with_the_last_slice_taken])
def test_an_end_before_the_last_commit_is_noticed(
    cluster: Slow,
    held: HeldStore,
    monkeypatch: pytest.MonkeyPatch,
    mutation: Callable[[pytest.MonkeyPatch], None],
) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_review_goes_on_until_its_last_slice_is_committed(cluster, held)


def test_a_review_that_failed_ends_where_few_partitions_are_left(cluster: Slow) -> None:
    cluster.fence(A)
    cluster.pass_time(TICK_MS)
    cluster.store.refusal = TidelogError("too late", ErrorCode.REQUEST_TIMED_OUT)
    cluster.settle()
    cluster.store.refusal = None
    cluster.store.write([TopicDeleted(TOPIC_ID)])
    cluster.pass_time(2 * TICK_MS)
    cluster.settle()
    assert not cluster.beat(A).fenced
    assert cluster.controller._controller.tick(cluster.now_ms, cluster.now_ms) == []
