"""A broker as a member of the cluster: what it tells the controllers of itself."""

from uuid import UUID

from fakes import ME, FakeServices

from tidelog.broker.membership import HEARTBEAT_MS, Membership
from tidelog.controller.messages import ControllerAsk, HeartbeatAsk, HeartbeatGot, RegisterAsk, RegisterGot
from tidelog.errors import ErrorCode

RUN = UUID(int=5)
SESSION_MS = 1500


def test_that_records_were_forgotten_is_told_until_it_was_heard_and_not_again() -> None:
    """A broker that is fenced and registers again in the same run has lost nothing since."""
    services = FakeServices()
    asked: list[ControllerAsk] = []
    membership = Membership(
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
