"""A micro-batch is in the topic once, wherever the writing of it stops: tasks and driver played without
Spark.

Each test writes batches the way Spark does (tasks, then the driver's commit; after a failure the same batch
again) and looks at what confluent-kafka reads as committed.
"""

import copy
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.spark.writing import writer_settings
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.ledger import Decision, LedgerState, decode, encode
from tidelog.spark.writing.ledger_messages import CommittedOffset
from tidelog.spark.writing.messages import ProducerId
from tidelog.spark.writing.settings import WriterSettings
from tidelog.spark.writing.sink import RunEnded, Sink
from tidelog.spark.writing.transactions import Participant, TransactionLost, Transactions, UnknownOutcome
from tidelog.spark.writing.writers import BatchWriter, Place, RolledBack, StreamWriter, Written

from .arrived import consume, held_back
from .conftest import CreateTopic

SCHEMA = StructType([StructField("value", StringType())])
Rows = Sequence[Sequence[str]]  # of each task


class Crash(BaseException):
    """The process is gone: nothing may catch this to clean up."""


class Query:
    """One streaming query, played: a run of it after the other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sink = f"tidelog-sink-{uuid.uuid4()}"
        self.run_id = str(uuid.uuid4())
        given = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            "kafka.retry.backoff.ms": "20",
            "checkpointLocation": f"/checkpoints/{self.sink}",
        }
        self.settings: WriterSettings = writer_settings(given, streaming=True)

    def started_again(self) -> "Query":
        """With the same checkpoint."""
        again = copy.copy(self)
        again.run_id = str(uuid.uuid4())
        return again

    def task(self, batch_id: int, task: int, rows: Sequence[str], attempt: int = 0) -> Written:
        place = Place(self.sink, self.run_id, batch_id, task, attempt)
        writer = StreamWriter(self.settings, lambda: place)
        batches = [pa.record_batch([pa.array(rows, pa.string())], names=["value"])] if rows else []
        return writer.write(iter(batches))

    def tasks(self, batch_id: int, rows: Rows) -> list[Written]:
        return [self.task(batch_id, task, part) for task, part in enumerate(rows)]

    def commit(self, batch_id: int, messages: Sequence[Written]) -> None:
        StreamWriter(self.settings).commit(messages, batch_id)

    def abort(self, batch_id: int, messages: Sequence[Written | None]) -> None:
        StreamWriter(self.settings).abort(messages, batch_id)

    def run(self, batch_id: int, rows: Rows) -> None:
        self.commit(batch_id, self.tasks(batch_id, rows))

    def decide(self, batch_id: int, messages: Sequence[Written], topic: str) -> None:
        """What commit does first, and no more."""
        participants = tuple(one.participant for one in messages if one.participant is not None)
        with Cluster(self.settings.client) as cluster:
            decision = Decision(batch_id, len(messages), participants)
            Sink(cluster, self.settings, self.sink).decide(self.run_id, decision, participants, topic)

    def finish(self, participant: Participant) -> bool:
        with Cluster(self.settings.client) as cluster:
            name = participant.name(self.sink)
            return Transactions(cluster, Coordinators(cluster)).commit(name, participant.producer)

    def time_out(self, participant: Participant) -> None:
        """What the coordinator does when the time of a transaction is up: another epoch, and an abort."""
        with Cluster(self.settings.client) as cluster:
            Transactions(cluster, Coordinators(cluster)).begin(participant.name(self.sink), 60_000)


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic(2)


@pytest.fixture
def query(bootstrap: str, topic: str) -> Query:
    return Query(bootstrap, topic)


def values(bootstrap: str, topic: str) -> list[str]:
    return sorted((one.value or b"").decode() for one in consume(bootstrap, topic))


def participant(message: Written) -> Participant:
    assert message.participant is not None
    return message.participant


def test_nothing_is_seen_before_the_driver_commits(query: Query, bootstrap: str, topic: str) -> None:
    messages = query.tasks(0, [["a", "b"], [], ["c"]])
    assert values(bootstrap, topic) == []
    query.commit(0, messages)
    assert values(bootstrap, topic) == ["a", "b", "c"]
    query.run(1, [["d"], ["e"], []])
    query.run(2, [[], [], []])
    query.run(3, [["f"]])
    assert values(bootstrap, topic) == ["a", "b", "c", "d", "e", "f"]


def test_a_driver_that_dies_before_the_decision_leaves_nothing(
    query: Query, bootstrap: str, topic: str
) -> None:
    query.tasks(0, [["a", "b"], ["c"]])
    query.started_again().run(0, [["b"], ["c", "a"]])
    assert values(bootstrap, topic) == ["a", "b", "c"]


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_after_the_decision_other_rows_in_other_tasks_change_nothing(
    query: Query, bootstrap: str, topic: str, finished: int
) -> None:
    messages = query.tasks(0, [["a", "b"], ["c"]])
    query.decide(0, messages, topic)
    for message in messages[:finished]:
        assert query.finish(participant(message))
    query = query.started_again()
    query.run(0, [["x"], ["y"], ["z"]])
    assert values(bootstrap, topic) == ["a", "b", "c"]
    query.run(1, [["d"]])
    assert values(bootstrap, topic) == ["a", "b", "c", "d"]


def test_what_timed_out_after_the_decision_is_written_again(query: Query, bootstrap: str, topic: str) -> None:
    rows = [["a", "b"], ["c"], ["d"]]
    messages = query.tasks(0, rows)
    query.decide(0, messages, topic)
    assert query.finish(participant(messages[0]))
    query.time_out(participant(messages[1]))
    query = query.started_again()
    with pytest.raises(UnknownOutcome, match="by 3 tasks; now there are 4"):
        query.run(0, [*rows, []])
    query = query.started_again()
    again = query.tasks(0, rows)
    assert [one.records for one in again] == [0, 1, 0]
    query.commit(0, again)
    assert values(bootstrap, topic) == ["a", "b", "c", "d"]
    query.started_again().run(0, rows)
    assert values(bootstrap, topic) == ["a", "b", "c", "d"]


def test_a_lost_transaction_stops_the_decision(query: Query, bootstrap: str, topic: str) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    query.time_out(participant(messages[1]))
    with pytest.raises(TransactionLost, match="no longer open"):
        query.commit(0, messages)
    query.started_again().run(0, [["a"], ["b"]])
    assert values(bootstrap, topic) == ["a", "b"]


def test_attempts_of_a_task_do_not_touch_each_other(query: Query, bootstrap: str, topic: str) -> None:
    first = query.task(0, 0, ["a"])
    late_twin = query.task(0, 0, ["a"], attempt=1)
    query.commit(0, [first])
    other = query.task(1, 0, ["b"])
    winner = query.task(1, 0, ["b"], attempt=2)
    query.commit(1, [winner])
    assert other.participant is not None and not query.finish(participant(other))
    assert not query.finish(participant(late_twin))
    assert values(bootstrap, topic) == ["a", "b"]


def test_losers_of_speculation_do_not_hold_back_readers(query: Query, bootstrap: str, topic: str) -> None:
    """Spark kills them; nobody is told what they had open."""
    winner = query.task(0, 0, ["a"])
    query.task(0, 0, ["a"], attempt=1)
    query.commit(0, [winner])
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a"]


def test_a_failed_batch_is_aborted_at_once(query: Query, bootstrap: str, topic: str) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    query.task(0, 2, ["c"])  # killed before it could tell the driver
    query.abort(0, [*messages, None])
    assert not query.finish(participant(messages[0]))
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == []


def test_a_batch_is_stopped_of_which_no_task_was_finished(query: Query, bootstrap: str, topic: str) -> None:
    query.tasks(0, [["a"], ["b"]])
    query.abort(0, [None, None])
    assert held_back(bootstrap, topic) == []
    with pytest.raises(RunEnded, match="was stopped"):
        query.task(0, 1, ["b"], attempt=1)  # a task that Spark had started before it was stopped
    query.started_again().run(0, [["a", "b"]])
    assert values(bootstrap, topic) == ["a", "b"]


def test_a_killed_driver_is_cleaned_up_after_by_the_next_run(
    query: Query, bootstrap: str, topic: str
) -> None:
    """With other attempts than the first, and with fewer tasks than before."""
    query.run(0, [["a"], ["b"], ["c"]])
    query.tasks(1, [["d"], ["e"], ["f"]])
    query.task(1, 2, ["f"], attempt=3)
    again = query.started_again()
    message = again.task(1, 0, ["d", "e", "f"])
    again.commit(1, [message])
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a", "b", "c", "d", "e", "f"]


def test_what_a_killed_driver_decided_is_seen_with_the_next_run(
    query: Query, bootstrap: str, topic: str
) -> None:
    """Before any task of the new run has written: the decided batch may be followed by none with rows."""
    messages = query.tasks(0, [["a"], ["b"], ["c"]])
    query.decide(0, messages, topic)
    again = query.started_again()
    again.task(0, 0, ["a", "b", "c"])
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a", "b", "c"]


def test_of_two_drivers_with_one_checkpoint_the_second_goes_on(
    query: Query, bootstrap: str, topic: str
) -> None:
    """Wherever the first is when the second starts: it neither adds nor takes away anything."""
    written = query.tasks(0, [["a"], ["b"]])
    second = query.started_again()
    second_written = second.tasks(0, [["a"], ["b"]])
    with pytest.raises(RunEnded, match=f"run {second.run_id} of the query took over"):
        query.commit(0, written)
    query.abort(0, written)  # as Spark does then; nothing of the other's
    with pytest.raises(RunEnded, match="took over"):
        query.task(0, 0, ["a"], attempt=1)
    second.commit(0, second_written)
    assert values(bootstrap, topic) == ["a", "b"]

    decided = second.tasks(1, [["c"], ["d"]])
    second.decide(1, decided, topic)
    third = second.started_again()
    third.run(1, [["c"], ["d"]])
    second.commit(1, decided)  # it was decided, and is done
    third.run(2, [["e"]])
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a", "b", "c", "d", "e"]


def test_what_was_decided_is_not_aborted_when_the_commit_fails(
    query: Query, bootstrap: str, topic: str
) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    query.decide(0, messages, topic)
    assert query.finish(participant(messages[0]))
    query.abort(0, messages)
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a", "b"]
    query.started_again().run(0, [["x"], ["y"]])
    assert values(bootstrap, topic) == ["a", "b"]


def test_an_older_checkpoint_is_refused(query: Query) -> None:
    query.run(4, [["a"]])
    with pytest.raises(RolledBack, match="Batch 3 is to be written, but batch 4"):
        query.task(3, 0, ["b"])


@pytest.mark.timeout(300)
def test_a_crash_before_or_after_any_request_adds_and_loses_nothing(
    bootstrap: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes die around their n-th question to a coordinator, for every n there is."""
    topic = create_topic(2)
    asked = Coordinators.ask
    left = [0]

    def ask(self: Coordinators, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Crash
        answer = asked(self, *arguments)
        left[0] -= 1
        if left[0] == 0:
            raise Crash
        return answer

    monkeypatch.setattr(Coordinators, "ask", ask)
    monkeypatch.setattr(Transactions, "abort", lambda *_: None)  # the dead clean up nothing
    monkeypatch.setattr("tidelog.spark.writing.sink._TURN_S", 0.0)
    expected: Counter[str] = Counter()
    point = 0
    crashed = True
    while crashed:
        point += 1
        query = Query(bootstrap, topic)
        rows = [[f"{point}-{name}" for name in part] for part in (["a", "b"], ["c"])]
        left[0] = point
        try:
            query.run(0, rows)
            crashed = False
        except Crash:
            left[0] = 0
            query.started_again().run(0, rows)
        expected.update(row for part in rows for row in part)
    assert point > 50
    assert held_back(bootstrap, topic) == []
    assert Counter(values(bootstrap, topic)) == expected


def test_a_batch_job_leaves_nothing_open(bootstrap: str, topic: str) -> None:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "deliveryGuarantee": "exactly-once",
        "kafka.retry.backoff.ms": "20",
    }

    def job() -> BatchWriter:
        return BatchWriter(writer_settings(given, streaming=False))

    def rows(*values: str) -> Iterator[pa.RecordBatch]:
        return iter([pa.record_batch([pa.array(values, pa.string())], names=["value"])])

    failed = job()
    failed.write(rows("x"))
    failed.abort([None])  # the task was killed before it could tell the driver
    assert held_back(bootstrap, topic) == []
    with pytest.raises(ClientError, match="is over"):
        failed.write(rows("y"))
    good = job()
    good.commit([good.write(rows("a"))])
    assert held_back(bootstrap, topic) == []
    assert values(bootstrap, topic) == ["a"]


@pytest.mark.parametrize("count", [0, 1, 160, 161, 700])
def test_ledgers_of_any_size_are_read_back(count: int) -> None:
    participants = tuple(Participant(task, 3, ProducerId(1 << 40 | task, 7)) for task in range(count))
    older = {("t", 5): CommittedOffset(8, "tidelog-sink-1:0:1:0:"), ("t", 9): CommittedOffset(99, "not ours")}
    runs = tuple(str(uuid.uuid4()) for _ in range(9))
    state = LedgerState(1 << 40, runs[0], "d" * 16, runs[1:], Decision(9, count + 5, participants, 2), "t")
    offsets = {("t", index): one for index, one in encode(state).items()}
    assert all(len(one.metadata) <= 4096 for one in offsets.values())
    assert decode(older | offsets) == state
    if len(offsets) > 1:
        del offsets["t", 1]
        with pytest.raises(UnknownOutcome, match=f"of {count}"):
            decode(offsets)


def test_ledgers_of_earlier_versions_are_read() -> None:
    older = {
        ("t", 0): CommittedOffset(8, "tidelog-sink-1:0:3:1:AAAAAgABAAAAAAAAAAUABw=="),
        ("u", 0): CommittedOffset(7, "tidelog-sink-1:4:1:0:"),
    }
    decision = Decision(8, 3, (Participant(2, 1, ProducerId(5, 7)),))
    assert decode(older) == LedgerState(decision=decision, topic="t")
    assert decode({}) == LedgerState()
    ended = LedgerState()
    for number in range(20):
        ended = ended.owned_by(str(number), "").without(str(number))
    assert ended.version == 40 and ended.run is None and ended.ended == tuple(map(str, range(12, 20)))
