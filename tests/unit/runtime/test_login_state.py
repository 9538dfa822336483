"""How long the login of a connection counts."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from tidelog.runtime.login_state import LoginState


class Login:
    def __init__(self, name: str) -> None:
        self.name = name
        self.cancelled = self.expired = 0

    def cancel(self) -> None:
        self.cancelled += 1

    def expire(self) -> None:
        self.expired += 1


class Timer:
    def __init__(self, after_s: float, callback: Callable[[], None]) -> None:
        self.after_s = after_s
        self.run = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.connection = cast(Any, object())
        self.first, self.again, self.after = Login("first"), Login("again"), Login("after its end")
        logins = SimpleNamespace(
            first=lambda of: self.first, later=lambda of, client_id: self.again if client_id else None,
            expired=lambda of: self.after,
            pace=SimpleNamespace(loop=SimpleNamespace(call_later=self._later)),
        )  # fmt: skip
        self.state = LoginState(cast(Any, logins), self.connection)

    def _later(self, after_s: float, callback: Callable[[Any], None], connection: Any) -> Timer:
        timer = Timer(after_s, lambda: callback(connection))
        self.timers.append(timer)
        return timer

    @property
    def login(self) -> Any:
        return self.state.login


def test_a_new_connection_has_to_log_in() -> None:
    world = World()
    assert world.login is world.first


def test_without_a_session_a_login_counts_as_long_as_the_connection() -> None:
    world = World()
    world.state.succeeded(world.connection, 0)
    assert world.login is None
    assert not world.timers


def test_after_its_session_the_client_has_to_authenticate() -> None:
    world = World()
    world.state.succeeded(world.connection, 2_000)
    [timer] = world.timers
    assert timer.after_s == 2.0
    timer.run()
    assert world.login is world.after


def test_a_login_that_is_under_way_when_the_session_ends_goes_on() -> None:
    world = World()
    world.state.succeeded(world.connection, 2_000)
    assert world.state.begin_again(world.connection, "client")
    world.timers[0].run()
    assert (world.login, world.again.expired) == (world.again, 1)


def test_a_new_login_replaces_the_session() -> None:
    world = World()
    world.state.succeeded(world.connection, 2_000)
    assert world.state.begin_again(world.connection, "client")
    world.state.succeeded(world.connection, 3_000)
    assert [timer.cancelled for timer in world.timers] == [True, False]
    assert world.login is None


def test_nothing_to_log_in_to() -> None:
    world = World()
    world.state.succeeded(world.connection, 0)
    assert not world.state.begin_again(world.connection, None)
    assert world.login is None


def test_the_end_of_the_connection_ends_both() -> None:
    world = World()
    world.state.succeeded(world.connection, 2_000)
    assert world.state.begin_again(world.connection, "client")
    world.state.close()
    assert (world.login, world.again.cancelled, world.timers[0].cancelled) == (None, 1, True)
