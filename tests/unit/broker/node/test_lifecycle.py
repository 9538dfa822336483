"""A broker as a member of the cluster: what it tells the controllers of itself."""

from uuid import UUID

from tidelog.broker.node.lifecycle import HEARTBEAT_MS, RETRY_MS, BrokerLifecycle, relied_on_ms
from tidelog.controller.messages import ControllerAsk, HeartbeatAsk, HeartbeatGot, RegisterAsk, RegisterGot
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeServices

RUN = UUID(int=5)
SESSION_MS = 1500
RELIED_ON_MS = relied_on_ms(SESSION_MS)


def test_that_records_were_forgotten_is_told_until_it_was_heard_and_not_again() -> None:
    """A broker that is fenced and registers again in the same run has lost nothing since."""
    services = FakeServices()
    asked: list[ControllerAsk] = []
    membership = BrokerLifecycle(
        RegisterAsk(ME, RUN, "here", 9092, None, forgot=True), services, asked.append, lambda: 0, SESSION_MS
    )
    membership.start()
    services.advance(SESSION_MS)
    assert len(asked) > 1
    assert all(isinstance(ask, RegisterAsk) and ask.forgot for ask in asked)  # Nobody has heard it yet.
    membership.answered(RegisterGot(ME, RUN, ErrorCode.NONE, 7))
    services.advance(HEARTBEAT_MS)
    assert isinstance(asked[-1], HeartbeatAsk)
    asked.clear()
    membership.answered(HeartbeatGot(ME, 7, ErrorCode.STALE_BROKER_EPOCH, fenced=True))
    services.advance(HEARTBEAT_MS)
    registrations = [ask for ask in asked if isinstance(ask, RegisterAsk)]
    assert registrations
    assert not any(ask.forgot for ask in registrations)


def test_a_session_that_was_given_up_does_not_come_back() -> None:
    """The response to the last heartbeat may still arrive."""
    services = FakeServices()
    asked: list[ControllerAsk] = []
    membership = BrokerLifecycle(
        RegisterAsk(ME, RUN, "here", 9092, None, False), services, asked.append, lambda: 0, SESSION_MS
    )
    membership.start()
    membership.answered(RegisterGot(ME, RUN, ErrorCode.NONE, 7))
    membership.answered(HeartbeatGot(ME, 7, ErrorCode.NONE, fenced=False, number=1))
    assert not membership.alone()
    services.advance(HEARTBEAT_MS)
    membership.give_up()
    asked.clear()
    membership.answered(HeartbeatGot(ME, 7, ErrorCode.NONE, fenced=False, number=2))
    assert membership.alone()
    membership.show_life()
    membership.hurry()
    services.advance(2 * SESSION_MS)
    assert asked == []


class TestLatestRegistration:
    """What a process says of the registrations before it, so that late copies can be told from it."""

    def make(self) -> tuple[FakeServices, BrokerLifecycle, list[RegisterAsk]]:
        services = FakeServices()
        asked: list[RegisterAsk] = []

        def ask(ask: ControllerAsk) -> None:
            if isinstance(ask, RegisterAsk):
                asked.append(ask)

        membership = BrokerLifecycle(
            RegisterAsk(ME, RUN, "here", 9092, None, forgot=True), services, ask, lambda: 0, SESSION_MS
        )
        membership.start()
        return services, membership, asked

    def refuse(self, membership: BrokerLifecycle, broker_epoch: int) -> None:
        membership.answered(RegisterGot(ME, RUN, ErrorCode.STALE_BROKER_EPOCH, broker_epoch))

    def test_it_begins_with_nothing(self) -> None:
        _, _, asked = self.make()
        assert [ask.known_epoch for ask in asked] == [0]

    def test_a_refusal_tells_it_and_it_asks_again_at_once(self) -> None:
        _, membership, asked = self.make()
        self.refuse(membership, 7)
        assert [ask.known_epoch for ask in asked] == [0, 7]
        assert asked[-1].forgot

    def test_a_refusal_that_tells_nothing_new_does_not_make_it_hurry(self) -> None:
        services, membership, asked = self.make()
        self.refuse(membership, 7)
        self.refuse(membership, 7)
        assert len(asked) == 2
        services.advance(RETRY_MS)
        assert [ask.known_epoch for ask in asked] == [0, 7, 7]

    def test_the_metadata_tells_it(self) -> None:
        services, membership, asked = self.make()
        membership.metadata_says(5, fenced=True)
        membership.metadata_says(4, fenced=True)  # Of a snapshot that is older.
        services.advance(RETRY_MS)
        assert asked[-1].known_epoch == 5

    def test_a_refusal_of_another_process_is_none(self) -> None:
        _, membership, asked = self.make()
        membership.answered(RegisterGot(ME, UUID(int=6), ErrorCode.STALE_BROKER_EPOCH, 7))
        assert len(asked) == 1


class TestSessions:
    """What an answer is worth: a session, from when the heartbeat that it answers was sent."""

    def make(self) -> tuple[FakeServices, BrokerLifecycle, list[HeartbeatAsk]]:
        services = FakeServices()
        asked: list[ControllerAsk] = []
        membership = BrokerLifecycle(
            RegisterAsk(ME, RUN, "here", 9092, None, forgot=False),
            services, asked.append, lambda: 0, SESSION_MS,
        )  # fmt: skip
        membership.start()
        membership.answered(RegisterGot(ME, RUN, ErrorCode.NONE, 7))
        membership.metadata_says(7, fenced=False)
        services.advance(3 * HEARTBEAT_MS)
        return services, membership, [ask for ask in asked if isinstance(ask, HeartbeatAsk)]

    def answer(self, membership: BrokerLifecycle, ask: HeartbeatAsk, *, fenced: bool = False) -> None:
        membership.answered(HeartbeatGot(ME, 7, ErrorCode.NONE, fenced, number=ask.number))

    def test_an_answer_counts_from_its_own_heartbeat(self) -> None:
        services, membership, (first, *_, last) = self.make()
        assert membership.alone()
        self.answer(membership, last)
        assert not membership.alone()
        self.answer(membership, first)  # Late: it says nothing about what was sent since.
        services.advance(RELIED_ON_MS - HEARTBEAT_MS - 1)
        assert not membership.alone()
        services.advance(HEARTBEAT_MS + 1)
        assert membership.alone()

    def test_clocks_may_differ_by_five_percent_each(self) -> None:
        """The session is over here before it is over for the controllers."""
        assert RELIED_ON_MS / 0.95 < SESSION_MS / 1.05

    def test_a_late_answer_to_an_old_one_does_not_count_for_a_new_one(self) -> None:
        services, membership, (first, second, *_) = self.make()
        self.answer(membership, second)
        services.advance(SESSION_MS - 2 * HEARTBEAT_MS)
        self.answer(membership, first)
        services.advance(2 * HEARTBEAT_MS)
        assert membership.alone()

    def test_after_the_loss_of_a_controller_only_a_later_heartbeat_makes_certain(self) -> None:
        """The controller may have fenced this broker, though its session is not over."""
        services, membership, (*_, before, last) = self.make()
        self.answer(membership, before)
        assert membership.is_certain
        membership.controller_lost()
        self.answer(membership, last)
        assert (membership.is_certain, membership.alone()) == (False, False)
        services.advance(HEARTBEAT_MS)
        self.answer(membership, last._replace(number=last.number + 1))
        assert membership.is_certain
        services.advance(SESSION_MS)
        assert not membership.is_certain

    def test_who_is_fenced_was_given_up(self) -> None:
        _, membership, (*_, last) = self.make()
        self.answer(membership, last, fenced=True)
        assert membership.alone()
