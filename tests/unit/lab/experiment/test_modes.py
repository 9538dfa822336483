"""One experiment for another mode, or for several at once."""

import pytest

from tidelog.lab.experiment.checking import ExperimentError
from tidelog.lab.experiment.model import Experiment, LoadSpec, TopicSpec
from tidelog.lab.experiment.modes import CHOICES, heading, headings, terms_of, with_mode, with_modes
from tidelog.planner.promises import EXAMPLES, Terms

EXPERIMENT = Experiment(
    name="x",
    title="x",
    topics=(TopicSpec(settings={"min.insync.replicas": "3", "retention.ms": "1000"}, partitions=4),),
    loads=(LoadSpec(rate=800.0),),
)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_mode_has_the_settings_of_its_column(choice: str) -> None:
    (topic,) = with_mode(EXPERIMENT, choice).topics
    assert terms_of(topic) == CHOICES[choice]
    assert (topic.name, topic.partitions, topic.settings["retention.ms"]) == ("records", 4, "1000")


def test_several_modes_have_a_topic_a_load_and_a_group_each() -> None:
    found = with_modes(EXPERIMENT, ["isr", "quorum"])
    names = ["records-isr", "records-quorum"]
    assert [topic.name for topic in found.topics] == names
    assert [load.topic for load in found.loads] == names
    assert [each.topic for each in found.consumers] == names
    assert len({each.group for each in found.consumers}) == 2


def test_several_modes_share_the_rate() -> None:
    assert [load.rate for load in with_modes(EXPERIMENT, list(CHOICES)).loads] == [200.0] * 4


def test_an_unknown_mode_is_named_with_those_there_are() -> None:
    with pytest.raises(ExperimentError, match="no mode 'raft'; use one of isr, primary-backup, prim"):
        with_mode(EXPERIMENT, "raft")


def test_an_experiment_with_two_topics_has_no_one_mode() -> None:
    two = Experiment(name="x", title="x", topics=(TopicSpec(name="a"), TopicSpec(name="b")))
    with pytest.raises(ExperimentError, match="has 2: a, b"):
        with_mode(two, "isr")


def test_headings_say_what_differs() -> None:
    shown = [heading(with_mode(EXPERIMENT, choice).topics[0]) for choice in CHOICES]
    assert shown == ["isr", "primary-backup, 1 copy", "primary-backup, 2 copies", "quorum"]
    assert heading(TopicSpec(replicas=3, settings={"flush.messages": "1"})) == "isr, 2 of 3 copies, synced"
    assert heading(TopicSpec(mode="quorum", replicas=5)) == "quorum, 3 of 5 copies"


def test_terms_come_from_settings_and_defaults() -> None:
    assert terms_of(TopicSpec()) == EXAMPLES["isr"]
    settings = {"min.insync.replicas": "1", "flush.messages": "1", "unclean.leader.election.enable": "true"}
    assert terms_of(TopicSpec(settings=settings)) == Terms("isr", 3, 1, synced=True, unclean=True)


def test_two_topics_with_the_same_settings_have_different_headings() -> None:
    """One must not hide the other in a table."""
    topics = (TopicSpec(name="a"), TopicSpec(name="b"), TopicSpec(name="c", mode="quorum"))
    assert headings(topics) == {"a": "isr (a)", "b": "isr (b)", "c": "quorum"}
