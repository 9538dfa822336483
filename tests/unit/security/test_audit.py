"""The audit log: one line for each refusal and change, bounded where clients could flood it."""

from typing import Any

from tidelog.security.acls import Operation, ResourceType
from tidelog.security.audit import ITEMS_MAX, REFUSALS_MAX, TEXT_MAX, WINDOW_MS, Audit
from tidelog.security.principal import Principal

ALICE = Principal("User", "alice")


class Log:
    def __init__(self) -> None:
        self.now_ms = 1000
        self.lines: list[Any] = []
        self.audit = Audit(self.lines.append, lambda: self.now_ms)

    def refuse(self, name: str = "t") -> None:
        self.audit.refused(ALICE, "h", "produce", Operation.WRITE, ResourceType.TOPIC, name, "c")


def test_a_refusal() -> None:
    log = Log()
    log.refuse()
    assert log.lines == [
        {
            "time_ms": 1000,
            "event": "refused",
            "principal": "User:alice",
            "host": "h",
            "client_id": "c",
            "api": "produce",
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource": "t",
        }
    ]


def test_the_same_refusal_is_told_once_a_minute() -> None:
    log = Log()
    for _ in range(5):
        log.refuse()
    assert len(log.lines) == 1
    log.now_ms += WINDOW_MS
    log.refuse()
    assert [(line["event"], line.get("count")) for line in log.lines[1:]] == [
        ("more-refused", 4), ("refused", None)
    ]  # fmt: skip


def test_a_flood_of_different_refusals_is_counted_only() -> None:
    log = Log()
    for number in range(REFUSALS_MAX + 7):
        log.refuse(f"t{number}")
    assert len(log.lines) == REFUSALS_MAX
    log.now_ms += WINDOW_MS
    log.refuse()
    assert log.lines[REFUSALS_MAX]["count"] == 7


def test_texts_and_lists_of_clients_are_cut() -> None:
    log = Log()
    log.refuse("x" * 100_000)
    assert len(log.lines[0]["resource"]) == TEXT_MAX
    log.audit.changed(ALICE, "h", "create_topics", ["y" * 1000] * (ITEMS_MAX + 5), [], "c" * 1000)
    line = log.lines[1]
    assert (len(line["items"]), line["more_items"]) == (ITEMS_MAX, 5)
    assert {len(item) for item in line["items"]} == {TEXT_MAX} and len(line["client_id"]) == TEXT_MAX
    assert "errors" not in line


def test_changes_without_a_right_are_refusals() -> None:
    """Otherwise whoever is refused could fill the disk with them."""
    log = Log()

    def refuse(api: str) -> None:
        log.audit.changed(ALICE, "h", api, ["a"], ["TOPIC_AUTHORIZATION_FAILED"], refused=True)

    for _ in range(3):
        refuse("create_topics")
    refuse("delete_topics")
    assert [line["api"] for line in log.lines] == ["create_topics", "delete_topics"]
    log.now_ms += WINDOW_MS
    refuse("create_topics")
    assert [(line["event"], line.get("count")) for line in log.lines[2:]] == [
        ("more-refused", 2), ("change", None)
    ]  # fmt: skip


def test_every_change_has_a_line() -> None:
    log = Log()
    for _ in range(3):
        log.audit.changed(ALICE, "h", "create_topics", ["a"], ["TOPIC_ALREADY_EXISTS"])
    assert len(log.lines) == 3 and log.lines[0]["errors"] == ["TOPIC_ALREADY_EXISTS"]
