"""From a query's options to offsets: which partitions exist, and where each begins and ends.

Runs in Spark's driver. Owns the requests to the cluster; readers decide what to do with the responses.
"""

from collections.abc import Iterable, Mapping

from tidelog.client.cluster import Cluster
from tidelog.client.errors import TopicReplaced, UnknownTopic
from tidelog.client.messages import EARLIEST, LATEST, TopicPartition
from tidelog.spark.options import OptionError
from tidelog.spark.reading.settings import At, Edge, ReadSettings

Offsets = dict[TopicPartition, int]


class Planner:
    """Metadata and offsets of one cluster for one reader."""

    def __init__(self, cluster: Cluster, settings: ReadSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._read_committed = settings.task.fetch.read_committed

    def partitions(self, *, existing: bool = False) -> list[TopicPartition]:
        """The selected topics, in order; :class:`UnknownTopic` for one that was named and does not exist,
        unless only the existing ones are asked for.
        """
        choice = self._settings.choice
        if choice.pattern is not None:
            known = self._cluster.known_topics(None)
            found = {
                name: topic for name, topic in known.items() if not topic.is_internal and choice.matches(name)
            }
            return sorted((name, index) for name, topic in found.items() for index in topic.partitions)
        if existing:
            named = choice.topics or dict.fromkeys(topic for topic, _ in choice.assigned)
            known = self._cluster.known_topics(list(named))
            there = {(name, index) for name, topic in known.items() for index in topic.partitions}
            return sorted(there if choice.topics else there & set(choice.assigned))
        if choice.topics:
            topics = self._cluster.topics(choice.topics)
            return sorted((name, index) for name in choice.topics for index in topics[name].partitions)
        topics = self._cluster.topics(topic for topic, _ in choice.assigned)
        for topic, index in choice.assigned:
            if index not in topics[topic].partitions:
                raise UnknownTopic(
                    f"The topic {topic} has no partition {index}, which option assign names; "
                    f"it has {len(topics[topic].partitions)}."
                )
        return sorted(set(choice.assigned))

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """Of their topics, as far as the brokers report ids; none with ``checkTopicIds=false``."""
        if not self._settings.check_topic_ids:
            return {}
        ids = {topic: self._cluster.topic_id(topic) for topic, _ in partitions}
        return {topic: topic_id for topic, topic_id in ids.items() if topic_id}

    def replaced(self, topic_ids: Mapping[str, str]) -> dict[str, TopicReplaced]:
        """Those of the topics that have another id now. Topics that are gone are not among them."""
        found = {}
        if topic_ids:
            self._cluster.known_topics(list(topic_ids))
        for topic, topic_id in topic_ids.items():
            try:
                self._cluster.check_topic_id(topic, topic_id)
            except TopicReplaced as error:
                found[topic] = error
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Ends of what may be read: with ``read_committed``, the last stable offset."""
        wanted = dict.fromkeys(partitions, LATEST)
        return self._cluster.list_offsets(wanted, read_committed=self._read_committed)

    def written(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Ends that ignore open transactions."""
        return self._cluster.list_offsets(dict.fromkeys(partitions, LATEST))

    def start(self, partitions: list[TopicPartition]) -> Offsets:
        edge = self._settings.start
        offsets, too_young = self._resolve(edge, partitions)
        if too_young and not self._settings.latest_if_none_younger:
            listed = ", ".join(f"{topic}-{index}" for topic, index in sorted(too_young))
            raise OptionError(
                f"Option {edge.option}: {listed} has no record as young as that; "
                "startingOffsetsByTimestampStrategy=latest begins at its end instead."
            )
        return offsets | self.latest(too_young)

    def end(self, partitions: list[TopicPartition]) -> Offsets:
        offsets, too_young = self._resolve(self._settings.end, partitions)
        return offsets | self.latest(too_young)

    def younger_than(self, partitions: list[TopicPartition], time_ms: int) -> Offsets:
        """The first offset of each that is not older; the end, if there is none."""
        offsets, too_young = self._resolve(Edge("timestamp", At.TIME, everywhere=time_ms), partitions)
        return offsets | self.latest(too_young)

    def _resolve(self, edge: Edge, partitions: list[TopicPartition]) -> tuple[Offsets, list[TopicPartition]]:
        """(offsets, partitions without a record of the requested time)."""
        wanted = self._wanted(edge, partitions)
        if edge.at is At.TIME:
            # With read_committed, a record of an open transaction is not found: no reader could go that far.
            listed = self._cluster.list_offsets(wanted, read_committed=self._read_committed)
            younger = {partition: offset for partition, offset in listed.items() if offset >= 0}
            return younger, [partition for partition in listed if partition not in younger]
        offsets = {partition: offset for partition, offset in wanted.items() if offset >= 0}
        begin = [partition for partition, offset in wanted.items() if offset == EARLIEST]
        end = [partition for partition, offset in wanted.items() if offset == LATEST]
        return offsets | self.earliest(begin) | self.latest(end), []

    def _wanted(self, edge: Edge, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        if edge.each is None:
            return dict.fromkeys(partitions, edge.everywhere if edge.everywhere is not None else LATEST)
        _same_partitions(edge.option, set(edge.each), set(partitions))
        return edge.each


def _same_partitions(option: str, named: set[TopicPartition], there: set[TopicPartition]) -> None:
    """A partition left out by mistake would be skipped silently; one too many is a typing error."""
    for wrong, what in (
        (there - named, "says nothing about {}; it must name all partitions"),
        (named - there, "names {}, which is not read; it must name the partitions that are, and only those"),
    ):
        if wrong:
            listed = ", ".join(f"{topic}-{index}" for topic, index in sorted(wrong))
            raise OptionError(f"Option {option} {what.format(listed)}.")
