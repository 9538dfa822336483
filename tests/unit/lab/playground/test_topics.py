"""The topics of the playground, on brokers of any numbers."""

from tidelog.lab.playground.topics import topics_on


def test_the_first_three_brokers_hold_them() -> None:
    found = topics_on([9, 4, 7, 2])
    assert found["isr"].replicas == (2, 4, 7)
    assert found["double-write"].replicas == (2, 4)
    assert {each.name for each in found.values()} == {
        "playground-isr",
        "playground-asynchronous",
        "playground-double-write",
        "playground-quorum",
    }


def test_two_brokers_are_too_few() -> None:
    assert topics_on([1, 2]) == {}
