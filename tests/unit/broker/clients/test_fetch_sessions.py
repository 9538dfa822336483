"""Fetch sessions by the rules of KIP-227, without any partition behind them."""

from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.clients import fetch_sessions
from tidelog.broker.clients.fetch_sessions import (
    EVICTION_MS,
    FetchSession,
    FetchSessions,
    Owner,
    unguessable_ids,
)
from tidelog.errors import ErrorCode
from tidelog.protocol.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchPartition, FetchRequest
from tidelog.security.principal import ANONYMOUS, Principal

NOW_MS = 1_000_000
ME: Owner = (ANONYMOUS, "10.0.0.1")
IDS = count(1).__next__


def part(index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(index, -1, offset, -1, -1, 1 << 20)


def request(session_id: int, epoch: int, *wanted: FetchPartition, forgotten: tuple[int, ...] = ()) -> Any:
    gone: list[tuple[str | UUID, list[int]]] = [("orders", list(forgotten))] if forgotten else []
    return FetchRequest(-1, -1, 0, 0, 0, 0, session_id, epoch, [("orders", list(wanted))], gone, "")


def begun(sessions: FetchSessions, *wanted: FetchPartition, now_ms: int = NOW_MS) -> FetchSession:
    session, error = sessions.begin(request(0, INITIAL_EPOCH, *wanted), ME, now_ms)
    assert (error, session is not None) == (ErrorCode.NONE, True)
    assert session is not None
    return session


def indexes(session: FetchSession) -> list[int]:
    return [index for _, index in session.partitions]


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, IDS)


class TestBeginning:
    def test_the_first_request_gets_a_session_and_the_next_one_its_epoch(
        self, sessions: FetchSessions
    ) -> None:
        session = begun(sessions, part(0), part(1))
        assert session.session_id > 0
        assert (session.epoch, indexes(session), len(sessions)) == (1, [0, 1], 1)

    def test_a_reader_may_do_without(self, sessions: FetchSessions) -> None:
        assert sessions.begin(request(0, FINAL_EPOCH, part(0)), ME, NOW_MS) == (None, ErrorCode.NONE)
        assert len(sessions) == 0

    def test_a_session_is_ended_by_its_reader(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0))
        assert sessions.begin(request(session.session_id, FINAL_EPOCH), ME, NOW_MS) == (None, ErrorCode.NONE)
        _, error = sessions.begin(request(session.session_id, 1), ME, NOW_MS)
        assert error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_full_request_with_an_id_takes_the_place_of_the_old_session(
        self, sessions: FetchSessions
    ) -> None:
        old = begun(sessions, part(0))
        new, error = sessions.begin(request(old.session_id, INITIAL_EPOCH, part(5)), ME, NOW_MS)
        assert new is not None
        assert (error, indexes(new), len(sessions)) == (ErrorCode.NONE, [5], 1)
        _, error = sessions.begin(request(old.session_id, 1), ME, NOW_MS)
        assert error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_ids_are_those_that_were_drawn(self) -> None:
        """They are random, so that nobody can guess the session of another client."""
        assert begun(FetchSessions(1, lambda: (5 << 31) + 41)).session_id == 41
        drawn = iter((0, 1 << 31, 7, 7, 8))
        sessions = FetchSessions(2, lambda: next(drawn))
        assert [begun(sessions).session_id for _ in range(2)] == [7, 8]


class TestIncrements:
    def test_only_changes_are_named(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0), part(1), part(2))
        found, error = sessions.begin(
            request(session.session_id, 1, part(1, 7), part(3), forgotten=(0, 9)), ME, NOW_MS
        )
        assert (found, error) == (session, ErrorCode.NONE)
        assert indexes(session) == [1, 2, 3]
        assert session.partitions["orders", 1].wanted.fetch_offset == 7
        assert session.epoch == 2

    def test_what_is_forgotten_and_named_in_one_request_stays(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0))
        sessions.begin(request(session.session_id, 1, part(0, 3), forgotten=(0,)), ME, NOW_MS)
        assert session.partitions["orders", 0].wanted.fetch_offset == 3

    @pytest.mark.parametrize("epoch", [2, 7, -2])
    def test_a_wrong_epoch_is_refused_and_changes_nothing(self, sessions: FetchSessions, epoch: int) -> None:
        session = begun(sessions, part(0))
        found = sessions.begin(request(session.session_id, epoch, part(1)), ME, NOW_MS)
        assert found == (None, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        assert (session.epoch, indexes(session)) == (1, [0])

    def test_a_repeated_request_is_refused(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0))
        sessions.begin(request(session.session_id, 1), ME, NOW_MS)
        assert sessions.begin(request(session.session_id, 1), ME, NOW_MS)[1] is (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH
        )

    def test_epochs_go_on_at_one(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0))
        session.epoch = (1 << 31) - 1
        sessions.begin(request(session.session_id, session.epoch), ME, NOW_MS)
        assert session.epoch == 1

    def test_an_unknown_session(self, sessions: FetchSessions) -> None:
        assert sessions.begin(request(7, 1, part(0)), ME, NOW_MS) == (
            None,
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        )

    def test_served_partitions_wait_behind_the_others(self, sessions: FetchSessions) -> None:
        session = begun(sessions, part(0), part(1), part(2))
        session.served(("orders", 0))
        assert indexes(session) == [1, 2, 0]


class TestNews:
    def test_watermark_and_start_are_news_once(self, sessions: FetchSessions) -> None:
        remembered = begun(sessions, part(0)).partitions["orders", 0]
        assert remembered.has_news(5, 0)
        assert not remembered.has_news(5, 0)
        assert remembered.has_news(6, 0)
        assert remembered.has_news(6, 2)
        assert not remembered.has_news(6, 2)


class TestSlots:
    def test_a_full_cache_gives_no_session(self, sessions: FetchSessions) -> None:
        first, second = begun(sessions), begun(sessions)
        late = NOW_MS + EVICTION_MS - 1
        assert sessions.begin(request(0, INITIAL_EPOCH, part(0)), ME, late) == (None, ErrorCode.NONE)
        assert sessions.begin(request(first.session_id, 1), ME, late)[0] is first
        assert sessions.begin(request(second.session_id, 1), ME, late)[0] is second

    def test_the_one_that_was_quiet_the_longest_makes_room(self, sessions: FetchSessions) -> None:
        first, second = begun(sessions), begun(sessions)
        sessions.begin(request(first.session_id, 1), ME, NOW_MS + 1000)
        third = begun(sessions, now_ms=NOW_MS + EVICTION_MS)
        assert len(sessions) == 2
        _, error = sessions.begin(request(second.session_id, 1), ME, NOW_MS)
        assert error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert sessions.begin(request(first.session_id, 2), ME, NOW_MS)[0] is first
        assert sessions.begin(request(third.session_id, 1), ME, NOW_MS)[0] is third

    def test_without_slots_there_are_no_sessions(self) -> None:
        assert FetchSessions(0, IDS).begin(request(0, INITIAL_EPOCH), ME, NOW_MS) == (None, ErrorCode.NONE)


class TestOwners:
    """Whoever guesses or hears the id of another client's session can do nothing with it."""

    @pytest.mark.parametrize("thief", [(ME[0], "10.0.0.2"), (Principal("User", "eve"), ME[1])])
    def test_a_stolen_id_is_unknown(self, sessions: FetchSessions, thief: Owner) -> None:
        session = begun(sessions, part(0))
        stolen = request(session.session_id, 1, part(1, 5), forgotten=(0,))
        assert sessions.begin(stolen, thief, NOW_MS) == (None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert (indexes(session), session.epoch) == ([0], 1)

    @pytest.mark.parametrize("epoch", [FINAL_EPOCH, INITIAL_EPOCH])
    def test_it_does_not_end_the_session(self, sessions: FetchSessions, epoch: int) -> None:
        session = begun(sessions, part(0))
        sessions.begin(request(session.session_id, epoch), (Principal("User", "eve"), "10.0.0.2"), NOW_MS)
        assert sessions.begin(request(session.session_id, 1), ME, NOW_MS)[0] is session


@given(steps=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=20))
@pytest.mark.slow
def test_a_session_knows_what_a_model_knows(steps: list[tuple[int, bool]]) -> None:
    sessions = FetchSessions(1, IDS)
    session = begun(sessions)
    model: dict[int, int] = {}
    for epoch, (index, wants) in enumerate(steps, start=1):
        if wants:
            sessions.begin(request(session.session_id, epoch, part(index, epoch)), ME, NOW_MS)
            model[index] = epoch
        else:
            sessions.begin(request(session.session_id, epoch, forgotten=(index,)), ME, NOW_MS)
            model.pop(index, None)
    assert {index: kept.wanted.fetch_offset for (_, index), kept in session.partitions.items()} == model


class TestPartitionsThatDoNotExist:
    """Anybody may request them, and each request of a session may add more."""

    @pytest.mark.slow
    def test_a_session_that_grows_too_large_ends(self, sessions: FetchSessions) -> None:
        session = begun(sessions, *map(part, range(60_000)))
        more = request(session.session_id, 1, *map(part, range(60_000, 120_000)))
        assert sessions.begin(more, ME, NOW_MS) == (None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert len(sessions) == 0
        begun(sessions, part(0))

    def test_all_sessions_together_are_limited(
        self, sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
        first = begun(sessions, part(0), part(1), part(2))
        large = request(0, INITIAL_EPOCH, part(0), part(1), part(2))
        assert sessions.begin(large, ME, NOW_MS) == (None, ErrorCode.NONE)
        assert len(sessions) == 1
        fewer, _ = sessions.begin(request(first.session_id, 1, forgotten=(0, 1)), ME, NOW_MS)
        assert fewer is first
        assert sessions.begin(large, ME, NOW_MS)[0] is not None

    def test_a_name_that_no_topic_can_have_is_not_kept(self, sessions: FetchSessions) -> None:
        odd = request(0, INITIAL_EPOCH)._replace(topics=[("x" * 250, [part(0)])])
        assert sessions.begin(odd, ME, NOW_MS) == (None, ErrorCode.NONE)
        assert len(sessions) == 0


def test_numbers_of_one_secret_cannot_be_foreseen_with_another() -> None:
    first, again, other = (unguessable_ids(secret) for secret in (b"a" * 16, b"a" * 16, b"b" * 16))
    numbers = [first() for _ in range(100)]
    assert numbers == [again() for _ in range(100)]
    assert len({*numbers, *(other() for _ in range(100))}) == 200
