"""Alarms ring once, at the earliest time."""

from tidelog.broker.coordinators.alarm import Alarm
from unit.broker.fakes import FakeBroker


class TestAlarm:
    def test_it_rings_once_at_the_earliest_time(self, broker: FakeBroker) -> None:
        rang: list[int] = []
        services = broker.services
        alarm = Alarm(services, lambda: rang.append(services.uptime_ms()))
        alarm.set(50)
        alarm.set(100)
        alarm.set(20)
        services.advance(30)
        assert rang == [20]
        alarm.set(services.uptime_ms() + 5)
        alarm.set(None)
        services.advance(1000)
        assert rang == [20]
