"""When all replicas were in sync again."""

from tidelog.lab.figures import figures

from .made_up import WINDOWS, event, topic


def test_after_the_last_fault_was_healed() -> None:
    events = [event("healed", 1500), event("redundant", 1600), event("healed", 1900)]
    assert figures(topic(*events), WINDOWS).redundant_after_s is None
    events.append(event("redundant", 2400))
    assert figures(topic(*events), WINDOWS).redundant_after_s == 0.5


def test_without_a_fault_too() -> None:
    assert figures(topic(event("redundant", 2001)), WINDOWS).redundant_after_s == 0.001
    assert figures(topic(), WINDOWS).redundant_after_s is None
