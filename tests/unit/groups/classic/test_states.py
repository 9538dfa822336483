"""Every way a classic group can go from one state to another, walked; and that there is no other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import ErrorCode, InvariantViolation
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import TRANSITIONS, ClassicGroupState
from tidelog.groups.effects import Now
from unit.groups.group_harness import GROUP, Groups


def empty(groups: Groups) -> None:
    groups.commit_offset(1)


def preparing(groups: Groups) -> None:
    groups.join()


def completing(groups: Groups) -> None:
    groups.join()
    groups.advance(1000)


def stable(groups: Groups) -> None:
    groups.form(2)


ARRIVE: dict[ClassicGroupState, Callable[[Groups], None]] = {
    ClassicGroupState.EMPTY: empty,
    ClassicGroupState.PREPARING: preparing,
    ClassicGroupState.COMPLETING: completing,
    ClassicGroupState.STABLE: stable,
}


def leave_all(groups: Groups) -> None:
    groups.leave(*groups.group.members)


def refuse_the_assignment(groups: Groups) -> None:
    groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    leader = groups.group.leader or ""
    groups.sync(leader, groups.group.generation, {leader: b"x"})


def leave_all_and_wait(groups: Groups) -> None:
    leave_all(groups)
    groups.advance(1000)


def delete(groups: Groups) -> None:
    groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))


def sync_the_leader(groups: Groups) -> None:
    groups.sync(groups.group.leader or "", groups.group.generation, {})


def let_the_first_die(groups: Groups) -> None:
    """The others send heartbeats."""
    dead, *others = groups.group.members
    for _ in range(12):
        for member in others:
            groups.heartbeat(member, groups.group.generation)
        groups.advance(1000)
    assert dead not in groups.group.members


def another_protocol(groups: Groups) -> None:
    (member,) = [member for member in groups.group.members if member != groups.group.leader]
    groups.join(member, protocols=(("range", b"other topics"),))


WAYS: dict[tuple[ClassicGroupState, ClassicGroupState], list[Callable[[Groups], object]]] = {
    (ClassicGroupState.EMPTY, ClassicGroupState.PREPARING): [lambda groups: groups.join()],
    (ClassicGroupState.EMPTY, ClassicGroupState.DEAD): [
        delete,
        lambda groups: groups.advance(8 * 24 * 3_600_000),
    ],
    (ClassicGroupState.PREPARING, ClassicGroupState.COMPLETING): [lambda groups: groups.advance(1000)],
    (ClassicGroupState.PREPARING, ClassicGroupState.EMPTY): [leave_all_and_wait],
    (ClassicGroupState.COMPLETING, ClassicGroupState.STABLE): [sync_the_leader],
    (ClassicGroupState.COMPLETING, ClassicGroupState.PREPARING): [
        lambda groups: groups.join(),
        lambda groups: groups.join(groups.group.leader or "", protocols=(("range", b"new"),)),
        lambda groups: groups.advance(60_000),
        refuse_the_assignment,
    ],
    (ClassicGroupState.STABLE, ClassicGroupState.PREPARING): [
        lambda groups: groups.join(),
        lambda groups: groups.join(groups.group.leader or ""),
        lambda groups: groups.leave(next(iter(groups.group.members))),
        let_the_first_die,
        another_protocol,
    ],
}


def test_every_row_is_walked() -> None:
    assert set(WAYS) == set(TRANSITIONS)


@pytest.mark.parametrize(("start", "end", "go"), [(*way, go) for way, ways in WAYS.items() for go in ways])
def test_a_way(start: ClassicGroupState, end: ClassicGroupState, go: Callable[[Groups], object]) -> None:
    groups = Groups(offsets_retention_check_interval_ms=3_600_000)
    ARRIVE[start](groups)
    group = groups.group
    assert group.state is start
    seen = [start]
    move = group._move

    def watched(state: ClassicGroupState, now: Now) -> None:
        seen.append(state)
        move(state, now)

    group._move = watched  # type: ignore[method-assign]
    go(groups)
    assert seen[1] is end


@pytest.mark.parametrize("start", ClassicGroupState)
@pytest.mark.parametrize("end", ClassicGroupState)
def test_there_is_no_other_way(start: ClassicGroupState, end: ClassicGroupState) -> None:
    groups = Groups()
    group = ClassicGroup(GROUP, groups.shard.deadlines, groups.shard.writes, lambda: groups.config)
    group.state = start
    if (start, end) in TRANSITIONS:
        group._move(end, groups.now)
        assert (group.state, group.since_ms) == (end, groups.now.wall_ms)
    else:
        with pytest.raises(InvariantViolation):
            group._move(end, groups.now)


def test_the_documentation_has_the_same_table() -> None:
    page = (Path(__file__).parents[4] / "docs" / "groups.md").read_text()
    rows = [f"| {start.value} | {end.value} | {why} |" for (start, end), why in TRANSITIONS.items()]
    assert "| from | to | when |\n|---|---|---|\n" + "\n".join(rows) + "\n\n" in page
