"""The metadata log: all nodes derive the same state from it, and its rules hold."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

import msgspec

from tidelog.broker.metadata.reading import CommittedReader
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.votes import elects_itself

IMAGES_KEPT = 64


def describe(partition: PartitionImage) -> str:
    """One line for a trace."""
    text = f"leader {partition.leader} epoch {partition.leader_epoch} in sync {list(partition.in_sync)}"
    return text + (f" eligible {list(partition.eligible)}" if partition.eligible else "")


def digest_of(image: ClusterImage) -> bytes:
    plain = msgspec.to_builtins(image, str_keys=True)
    return sha256(msgspec.json.encode(plain, order="deterministic")).digest()


def decisions(log: Log, image: ClusterImage, offset: int, end_offset: int) -> Iterator[ClusterImage]:
    """The images after each decision from ``offset`` on, beginning with ``image``. None if the log does not
    reach back so far: it begins with a snapshot.
    """
    while log.start_offset <= offset < end_offset:
        reader, read = CommittedReader(log, image, offset), None
        while read is None:
            try:
                read = reader.read(end_offset, 1)
            except TidelogError:
                return  # The disk fails.
        image, offset = read.image, read.end_offset
        if read.records:
            yield image


class MetadataChecker:
    def __init__(self, note: Callable[[str], None] = lambda line: None) -> None:
        self._note = note
        # Offset up to which it was applied → the image; of all but the newest ones seen, its digest.
        self._images: dict[int, ClusterImage] = {}
        self._digests: dict[int, bytes] = {}
        self.newest = ClusterImage()
        self.newest_offset = 0
        self.on_described: Callable[[TopicImage], None] = lambda topic: None  # of one that is new or changed
        # (topic, partition, its previous state): for the promise of its mode
        self.on_decided: Callable[[TopicImage, int, PartitionImage], None] = lambda topic, index, before: None
        # (topic, partition, a state between the previous one and the newest): no node has acted on it
        self.on_passed: Callable[[TopicImage, int, PartitionImage], None] = lambda topic, index, state: None

    def applied(
        self, node: int, offset: int, image: ClusterImage, between: Sequence[ClusterImage] = ()
    ) -> None:
        """Two nodes that know the log up to the same offset see the same cluster, whether they applied every
        record or started with a snapshot. Otherwise each would follow another leader. ``between``: the images
        after decisions that are committed together with the newest one.
        """
        if not self._is_known(offset, image):
            raise Violation(f"node {node} makes something else of the metadata up to {offset} than others")
        if offset > self.newest_offset:
            before, self.newest, self.newest_offset = self.newest, image, offset
            self._compare(before, image)
            for passed in between:
                self._pass(before, passed)

    def _is_known(self, offset: int, image: ClusterImage) -> bool:
        """Whether it equals what was first seen there. Most nodes are close together, and comparing two
        images takes a tenth of the time of a digest.
        """
        known = self._digests.get(offset)
        if known is not None:
            return digest_of(image) == known
        first = self._images.setdefault(offset, image)
        if len(self._images) > IMAGES_KEPT:
            oldest = next(iter(self._images))
            self._digests[oldest] = digest_of(self._images.pop(oldest))
        return first is image or first == image or digest_of(first) == digest_of(image)

    def _compare(self, before: ClusterImage, after: ClusterImage) -> None:
        for topic in after.topics.values():
            known = before.topic_by_id(topic.topic_id)
            if known is topic:
                continue
            self.on_described(topic)
            if known is None:
                continue
            for index, (old, new) in enumerate(zip(known.partitions, topic.partitions, strict=False)):
                self._compare_partition(topic, index, old, new)

    def _pass(self, before: ClusterImage, passed: ClusterImage) -> None:
        for topic in self.newest.topics.values():
            known, then = before.topic_by_id(topic.topic_id), passed.topic_by_id(topic.topic_id)
            if known is None or then is None or then in (known, topic):
                continue
            for index, state in enumerate(then.partitions):
                self.on_passed(topic, index, state)

    def _compare_partition(
        self, topic: TopicImage, index: int, old: PartitionImage, new: PartitionImage
    ) -> None:
        name = f"{topic.name}-{index}"
        if new.partition_epoch != old.partition_epoch:
            self._note(f"{name}: decided {describe(new)}")
        if new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch:
            raise Violation(f"{name}: the controllers went back from {old} to {new}")
        led = new.leader >= 0 and (old.leader >= 0 or not elects_itself(new))
        if led and new.leader != old.leader and new.leader_epoch == old.leader_epoch:
            raise Violation(f"{name}: another leader in the same epoch, {old} and {new}")
        self.on_decided(topic, index, old)
