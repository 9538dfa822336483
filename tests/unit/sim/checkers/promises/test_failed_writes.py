"""What replicas hold, for the checkers: after a disk has failed, and where a log has records of its own."""

from errno import EIO
from uuid import UUID

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.batches import end_on_disk
from tidelog.sim.checkers.promises.failed_writes import FailedWrites
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import nothing
from tidelog.sim.machine import DATA
from tidelog.sim.story import Story

KEY: Key = (UUID(int=1), 0)
BEFORE, AFTER = UUID(int=10), UUID(int=11)


def lost(story: Story) -> dict[int, int]:
    """Nodes that may lack something, and what each of them still holds."""
    [place] = story.cluster.checker.places()
    return dict(story.cluster.checker.losses.of(place.key))


def restart(story: Story, letter: str) -> None:
    story.kill(letter)
    story.repair_disk(letter)
    story.start(letter)
    story.until(lambda: story.has_opened(letter), f"the return of {letter}")


def remove_last_batch(story: Story, letter: str) -> None:
    """As no disk does: a bug would have to."""
    path, content = story.segments(letter)[-1]
    position = [start for start, _ in iterate(content)][-1]
    file = story.machine(letter).disk.open(path)
    file.truncate(position)
    file.sync()


def test_a_node_comes_back_once_and_only_with_another_process() -> None:
    failed = FailedWrites()
    failed.note(KEY, 2, BEFORE, 7)
    failed.note(KEY, 3, None, 5)
    assert failed.back(KEY, {2: BEFORE}) == []
    assert sorted(failed.nodes(KEY)) == [2, 3]
    assert failed.back(KEY, {2: AFTER}) == [(2, 7)]
    assert failed.back(KEY, {2: AFTER, 3: AFTER}) == [(3, 5)]
    assert failed.keys() == []


def test_a_replica_that_failed_to_write_and_is_trusted_has_lost_nothing() -> None:
    story = Story(min_insync_replicas="3")
    assert story.write() is ErrorCode.NONE
    story.machine("B").damaged = True
    restart(story, "B")
    assert story.machine("B").node_id in {*story.partition().in_sync, *story.partition().eligible}
    assert lost(story) == {}


def test_one_that_was_reported_counts_until_it_has_caught_up() -> None:
    story = Story()
    assert story.write() is ErrorCode.NONE
    machine = story.machine("B")
    machine.damaged = True
    story.fill_disk("B")
    story.write(patience_ms=500)
    story.until(lambda: machine.node_id in story.partition().offline, "the report of B")
    story.cut("AC", "B")
    restart(story, "B")
    assert lost(story) == {machine.node_id: 1}
    story.heal()
    story.until(story.all_in_sync, "the return of B")
    story.run(100)
    assert lost(story) == {}


def test_what_a_failed_sync_has_dropped_is_lost_though_nobody_knows() -> None:
    story = Story(flush_messages="2")
    assert story.write() is ErrorCode.NONE
    story.run(3500)
    machine = story.machine("B")
    machine.damaged = True
    machine.disk.failing["sync"] = EIO
    for _ in range(2):
        story.send()
    story.world.run_while(lambda: not machine.doubtful, 3000)
    assert machine.doubtful
    machine.doubtful = False  # The process ends before it could note it.
    story.kill("B")
    story.cut("AC", "B")
    story.repair_disk("B")
    story.start("B")
    assert machine.node_id in lost(story)


def test_a_trusted_replica_that_lacks_records_is_noticed_after_failed_writes() -> None:
    story = Story(min_insync_replicas="3")
    for _ in range(2):
        assert story.write() is ErrorCode.NONE
    story.run(100)
    story.kill("B")
    story.until(lambda: "B" not in story.in_sync(), "the departure of B")
    remove_last_batch(story, "B")
    story.machine("B").damaged = True
    story.cut("AC", "B")
    story.start("B")
    story.until(lambda: story.has_opened("B"), "the return of B")
    story.kill("A")
    with pytest.raises(Violation, match="which holds 1"):
        story.run(10_000)


def test_a_log_holds_of_the_committed_records_only_those_before_its_own() -> None:
    """A has written on its own, died, and loses power when others have committed something else."""
    story = Story()
    assert story.write() is ErrorCode.NONE
    story.cut("A", "BC")
    for _ in range(2):
        assert story.write(acks=1, at="A") is ErrorCode.NONE
    machine = story.machine("A")
    machine.disk.write_back([path for path, _ in story.segments("A")])
    story.kill("A")
    story.until(lambda: story.leader() in "BC", "another leader")
    story.heal()
    assert story.write() is ErrorCode.NONE
    machine.lose_power(nothing)
    assert end_on_disk(machine.disk, f"{DATA}/t-0") == 3
    assert lost(story) == {machine.node_id: 1}


def test_the_last_replica_may_lose_more_before_it_leads_again() -> None:
    """It counts as incomplete since it failed to write, and only then loses power."""
    story = Story(brokers=1, min_insync_replicas="1")
    for _ in range(4):  # The first ones are synced with the history of epochs.
        assert story.write() is ErrorCode.NONE
    machine = story.machine("A")
    machine.damaged = True
    story.fill_disk("A")
    story.write(patience_ms=500)
    story.until(lambda: machine.node_id in story.partition().offline, "the report of A")
    story.kill("A")
    story.repair_disk("A")
    story.start("A")
    story.world.run_while(lambda: bool(story.partition().in_sync), 3000, step_ms=0.1)
    assert (story.partition().in_sync, story.leader()) == ((), "nobody")
    story.power_off("A")
    assert end_on_disk(machine.disk, f"{DATA}/t-0") < 4
    story.start("A")
    story.until(lambda: story.leader() == "A", "the election")
    story.run(100)
    assert story.write() is ErrorCode.NONE
