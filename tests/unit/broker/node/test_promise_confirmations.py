"""What a broker confirms of its logs, also of those that are opened after it heard of what to confirm."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tidelog.broker.node.promise_confirmations import PromiseConfirmations
from tidelog.controller.image import PartitionImage

TOPIC = UUID(int=7)
KEY = (TOPIC, 0)


class FakeServices:
    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def uptime_ms(self) -> int:
        return 0

    def run(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def image_of(partition: PartitionImage) -> Any:
    topic = SimpleNamespace(topic_id=TOPIC, partitions=(partition,))
    return SimpleNamespace(topics={"t": topic}, topic_by_id=lambda topic_id: topic)


def state_with(partition: PartitionImage) -> SimpleNamespace:
    return SimpleNamespace(
        me=2, stopped=False, image=image_of(partition), broker_epoch=5, roles_are_current=True
    )


def test_a_log_that_is_opened_later_is_confirmed_then() -> None:
    """A move brings it, and logs are opened a few at a time."""
    partition = PartitionImage((1, 2), (1,), 1, 0, unsynced=(2,), promise_epoch=3)
    standing = state_with(partition)
    opened: dict[Any, Any] = {}
    asked: list[Any] = []
    services = FakeServices()
    promises = PromiseConfirmations(cast(Any, standing), opened.get, cast(Any, services), asked.append)
    promises.metadata_changed(standing.image)
    services.run()
    assert not asked
    opened[KEY] = SimpleNamespace(log=SimpleNamespace(end_offset=4), is_synced_to=lambda offset: True)
    services.run()
    assert [each.synced for each in asked[0].confirmed] == [True]


def test_nothing_is_confirmed_before_the_replica_has_heard_of_it() -> None:
    """Roles and settings are handed out a few at a time: what a replica does not know yet, it does not do."""
    partition = PartitionImage((1, 2), (1,), 1, 0, unsynced=(2,), promise_epoch=3)
    standing = state_with(partition)
    opened: dict[Any, Any] = {}
    asked: list[Any] = []
    services = FakeServices()
    promises = PromiseConfirmations(cast(Any, standing), opened.get, cast(Any, services), asked.append)
    promises.metadata_changed(standing.image)
    standing.roles_are_current = False
    opened[KEY] = SimpleNamespace(log=SimpleNamespace(end_offset=4), is_synced_to=lambda offset: True)
    services.run()
    services.run()
    assert not asked
    standing.roles_are_current = True
    services.run()
    assert [each.synced for each in asked[0].confirmed] == [True]
