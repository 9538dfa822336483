"""The four topics of the playground: those of the demo, on brokers of any numbers. Pure."""

from collections.abc import Sequence

from tidelog.lab.demo import topics as demo
from tidelog.lab.demo.topics import DemoTopic

BROKERS_MIN = demo.BROKERS
PREFIX = "playground-"


def topics_on(brokers: Sequence[int]) -> dict[str, DemoTopic]:
    """By their short names; empty if there are too few brokers. All have the same first broker, so that one
    click shows how each of them answers.
    """
    if len(brokers) < BROKERS_MIN:
        return {}
    chosen = dict(enumerate(sorted(brokers)[:BROKERS_MIN], 1))
    return {
        each.name: each._replace(
            name=PREFIX + each.name, replicas=tuple(chosen[place] for place in each.replicas)
        )
        for each in demo.TOPICS
    }
