"""Settings of other systems as settings of Tidelog, and back to Kafka. What has no equivalent is said."""

from typing import NamedTuple

from tidelog.planner.promises import Terms


class Translated(NamedTuple):
    system: str
    terms: Terms
    partitions: int = 0  # 0: not said
    notes: tuple[str, ...] = ()  # what is different, and what has no equivalent
    unknown: tuple[str, ...] = ()  # settings that were given and are not known, each with whether they matter
