"""One experiment for another mode, or for several at once.

A mode comes with its usual settings, those of the columns of ``tidelog modes``. Several modes get a topic, a
load and consumers each, on the same brokers: one fault then hits all of them in the same moment.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from tidelog.config import TOPIC_SETTINGS
from tidelog.config.modes import DEFAULTS, WITHOUT_MEANING
from tidelog.lab.experiment.checking import ExperimentError
from tidelog.lab.experiment.model import Experiment, TopicSpec
from tidelog.planner.promises import EXAMPLES, SYNC_EVERY_MESSAGE, Terms, heading_of

CHOICES: dict[str, Terms] = {
    "isr": EXAMPLES["isr"],
    "primary-backup": EXAMPLES["async"],
    "primary-backup-sync": EXAMPLES["double"],
    "quorum": EXAMPLES["quorum"],
}
"""What ``--mode`` and ``--modes`` take; ``primary-backup-sync`` waits for two copies."""


# Settings that the mode decides: they are not taken over from the experiment's topic.
_DECIDED = (
    "min.insync.replicas",
    "flush.messages",
    "unclean.leader.election.enable",
    "replication.degrade.after.ms",
)


def with_mode(experiment: Experiment, choice: str) -> Experiment:
    """The same with its one topic in another mode."""
    return replace(experiment, topics=(_in_mode(_one_topic(experiment), choice),))


def with_modes(experiment: Experiment, choices: Sequence[str]) -> Experiment:
    """One topic for each choice, named after it, all with the experiment's loads and consumers."""
    if len(choices) == 1:
        return with_mode(experiment, choices[0])
    topic = _one_topic(experiment)
    names = [f"{topic.name}-{choice}" for choice in choices]
    return replace(
        experiment,
        topics=tuple(
            replace(_in_mode(topic, choice), name=name) for choice, name in zip(choices, names, strict=True)
        ),
        # Together they are as much as the experiment's load: the machine is the same for all.
        loads=tuple(
            replace(load, topic=name, rate=load.rate / len(names))
            for name in names
            for load in experiment.loads
        ),
        consumers=tuple(
            replace(reader, topic=name, group=f"{reader.group}-{name}")
            for name in names
            for reader in experiment.consumers
        ),
    )


def _one_topic(experiment: Experiment) -> TopicSpec:
    if len(experiment.topics) != 1:
        raise ExperimentError(
            [
                f"--mode replaces the mode of one topic, but {experiment.name} has {len(experiment.topics)}: "
                f"{', '.join(topic.name for topic in experiment.topics)}."
            ]
        )
    return experiment.topics[0]


def _in_mode(topic: TopicSpec, choice: str) -> TopicSpec:
    if choice not in CHOICES:
        raise ExperimentError([f"There is no mode {choice!r}; use one of {', '.join(CHOICES)}."])
    terms = CHOICES[choice]
    kept = {name: value for name, value in topic.settings.items() if name not in _DECIDED}
    if "min.insync.replicas" not in WITHOUT_MEANING[terms.mode]:
        kept["min.insync.replicas"] = str(terms.min_in_sync)
    return replace(topic, mode=terms.mode, replicas=terms.replicas, settings=kept)


def terms_of(topic: TopicSpec) -> Terms:
    """What the promises of this topic depend on; a setting that is not given has its default."""

    def value(name: str) -> object:
        if name in topic.settings:
            return TOPIC_SETTINGS[name].parse(topic.settings[name])
        return DEFAULTS[topic.mode].get(name, TOPIC_SETTINGS[name].default)

    minimum, degrade = value("min.insync.replicas"), value("replication.degrade.after.ms")
    return Terms(
        topic.mode,
        topic.replicas,
        min_in_sync=minimum if isinstance(minimum, int) else 1,
        synced=value("flush.messages") == SYNC_EVERY_MESSAGE,
        unclean=value("unclean.leader.election.enable") is True,
        degrades=isinstance(degrade, int) and degrade >= 0,
    )


def heading(topic: TopicSpec) -> str:
    """``primary-backup, 2 copies``; of other settings than the usual ones, with what differs."""
    terms = terms_of(topic)
    usual = next((each for each in CHOICES.values() if each == terms), None)
    if usual is not None:
        return heading_of(terms)
    synced = ", synced" if terms.synced and not DEFAULTS[terms.mode].get("flush.messages") else ""
    return f"{terms.mode}, {terms.copies} of {terms.replicas} copies{synced}"


def headings(topics: Sequence[TopicSpec]) -> dict[str, str]:
    """By topic, each another one: with the topic's name where two are alike."""
    same = Counter(map(heading, topics))
    return {
        topic.name: f"{heading(topic)} ({topic.name})" if same[heading(topic)] > 1 else heading(topic)
        for topic in topics
    }
