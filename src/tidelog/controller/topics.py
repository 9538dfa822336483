"""Creating, extending and deleting topics: a request and an image in, records or a refusal out."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from tidelog.config import BrokerConfig, check_topic_overrides
from tidelog.config.modes import DEFAULT, INTERNAL
from tidelog.config.topic import REPLICATION_MODE, mode_of
from tidelog.controller import placement
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.placement import Site
from tidelog.controller.records import PartitionsAdded, TopicCreated, TopicDeleted
from tidelog.controller.successions import away_counts, placement_problem, spreading_of
from tidelog.errors import ErrorCode, InvalidConfig, InvalidRequest, TidelogError

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH = 249  # leaves room for "-<partition>" and suffixes in a 255-byte directory name
NO_LIMIT = 1 << 62
MAX_PARTITIONS = 100_000  # of one topic; a typo should not fill the disk with directories
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class NewTopic(NamedTuple):
    """A client's request. -1 means the cluster's default."""

    name: str
    partitions: int = -1
    replicas: int = -1
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Mapping[str, str] = {}


class Draft:
    """Replicas of new partitions, placed before the decision to create them, because placing ten thousand
    takes long. The draft is used if the brokers are still the same at the decision.
    """

    def __init__(self, mode: str, replicas: int, sites: Sequence[Site], placing: Iterator[list[int]]) -> None:
        self._key = (mode, replicas, sites)
        self._placing = placing
        self.placed: list[list[int]] = []

    def steps(self) -> Iterator[None]:
        """Each step places one partition."""
        for assignment in self._placing:
            self.placed.append(assignment)
            yield

    def fits(self, mode: str, partitions: int, replicas: int, sites: Sequence[Site]) -> bool:
        return self._key == (mode, replicas, sites) and len(self.placed) == partitions


def draft_creation(image: ClusterImage, new: NewTopic, config: BrokerConfig) -> Draft:
    """Raises the same errors as :func:`create`."""
    mode = mode_of(_with_mode(new, config))
    partitions, replicas = _counts(image, new, config)
    sites = _sites(image)
    spreading = spreading_of(mode)
    return Draft(mode, replicas, sites, spreading(sites, partitions, replicas, elsewhere=_assignments(image)))


def draft_growth(image: ClusterImage, name: str, total: int) -> Draft:
    """Raises the same errors as :func:`add_partitions`."""
    topic = require(image, name)
    _check_partition_count(total)
    mode, replicas = topic.partitions[0].mode, len(topic.partitions[0].target)
    sites = _sites(image)
    added = total - len(topic.partitions)
    return Draft(mode, replicas, sites, _spread_more(image, topic, added, sites))


def check_name(name: str) -> None:
    problem = None
    if not name:
        problem = "is empty"
    elif name in (".", ".."):
        problem = "cannot be '.' or '..'"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"is longer than {MAX_NAME_LENGTH} characters"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "may only have letters, digits, '.', '_' and '-'"
    elif name == CLUSTER_METADATA_TOPIC:
        problem = "is the name of the metadata log"
    if problem:
        raise TidelogError(f"topic name {name[:60]!r} {problem}", ErrorCode.INVALID_TOPIC_EXCEPTION)


def create(
    image: ClusterImage, new: NewTopic, config: BrokerConfig, topic_id: UUID, draft: Draft | None = None
) -> TopicCreated:
    check_name(new.name)
    if new.name in image.topics:
        raise TidelogError(f"topic {new.name!r} already exists", ErrorCode.TOPIC_ALREADY_EXISTS)
    _check_collision(image, new.name)
    configs = _with_mode(new, config)
    _check_room(image, new, config)
    assignments = _place(image, new, config, mode_of(configs), draft)
    for warning in check_topic_overrides(configs, len(assignments[0])):
        logger.warning("topic %s: %s", new.name, warning)
    return TopicCreated(
        new.name, topic_id, assignments, configs, _away(image, assignments), mode_of(configs),
        away_counts(mode_of(configs)),
    )  # fmt: skip


def _with_mode(new: NewTopic, config: BrokerConfig) -> dict[str, str]:
    """The mode of a new topic is stored with it: a later change of the default must not change how it is
    replicated.
    """
    default = INTERNAL if new.name in INTERNAL_TOPICS else config.default_replication_mode
    if REPLICATION_MODE in new.configs or default == DEFAULT:
        check_mode_of_internal(new.name, new.configs)
        return dict(new.configs)
    return {**new.configs, REPLICATION_MODE: default}


def check_mode_of_internal(name: str, configs: Mapping[str, str]) -> None:
    """Coordinators run only where the controllers appoint the leader."""
    if name in INTERNAL_TOPICS and mode_of(configs) != INTERNAL:
        raise InvalidConfig(f"{name} is an internal topic, and its replication mode is always {INTERNAL}.")


def _check_collision(image: ClusterImage, name: str) -> None:
    """'.' and '_' become the same character in metric names, so names that differ only there are refused."""
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in image.topics:
        if other.replace(".", "_") == folded:
            raise TidelogError(f"topic {name!r} collides with {other!r}", ErrorCode.INVALID_TOPIC_EXCEPTION)


def _place(
    image: ClusterImage, new: NewTopic, config: BrokerConfig, mode: str, draft: Draft | None
) -> list[list[int]]:
    if new.assignments:
        if new.partitions != -1 or new.replicas != -1:
            raise InvalidRequest(
                "give either a replica assignment or partitions and replication factor, not both"
            )
        placed = placement.check_manual(new.assignments, sorted(image.brokers), first_partition=0)
        _check_available(image, placed, mode, first_partition=0)
        return placed
    partitions, replicas = _counts(image, new, config)
    sites = _sites(image)
    if draft is not None and draft.fits(mode, partitions, replicas, sites):
        return draft.placed
    return list(spreading_of(mode)(sites, partitions, replicas, elsewhere=_assignments(image)))


def _counts(image: ClusterImage, new: NewTopic, config: BrokerConfig) -> tuple[int, int]:
    """The numbers of partitions and replicas that are requested."""
    partitions = config.num_partitions if new.partitions == -1 else new.partitions
    _check_partition_count(partitions)
    replicas = _default_replicas(image, config) if new.replicas == -1 else new.replicas
    if replicas < 1:
        raise TidelogError(
            f"replication factor must be at least 1, not {replicas}", ErrorCode.INVALID_REPLICATION_FACTOR
        )
    return partitions, replicas


def _default_replicas(image: ClusterImage, config: BrokerConfig) -> int:
    """The default assumes that many brokers. A smaller cluster gets as many replicas as it has brokers."""
    return min(config.default_replication_factor, max(len(image.brokers), 1))


def _sites(image: ClusterImage) -> list[Site]:
    available = BrokerAvailability.of(image)
    return [
        Site(node.broker_id, node.rack, not node.fenced, node.broker_id in available.willing)
        for node in image.brokers.values()
    ]


def _assignments(image: ClusterImage, without: TopicImage | None = None) -> list[tuple[int, ...]]:
    return [
        partition.replicas
        for topic in image.topics.values()
        if topic is not without
        for partition in topic.partitions
    ]


def _away(image: ClusterImage, assignments: Sequence[Sequence[int]]) -> list[int]:
    """Replicas of new partitions that are not members yet, because their brokers are fenced."""
    fenced = {node.broker_id for node in image.brokers.values() if node.fenced}
    return sorted(fenced.intersection(chain.from_iterable(assignments)))


def _check_available(
    image: ClusterImage, assignments: Sequence[Sequence[int]], mode: str, *, first_partition: int
) -> None:
    def serves(broker: int) -> bool:
        return not image.brokers[broker].fenced

    for number, replicas in enumerate(assignments, first_partition):
        problem = placement_problem(mode, number, replicas, serves)
        if problem:
            raise TidelogError(problem, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def _check_partition_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TidelogError(
            f"number of partitions must be 1 to {MAX_PARTITIONS}, not {partitions}",
            ErrorCode.INVALID_PARTITIONS,
        )


def _check_room(image: ClusterImage, new: NewTopic, config: BrokerConfig) -> None:
    # Groups and transactions need their topics, and clients do not choose how large those are.
    if new.name not in INTERNAL_TOPICS:
        wanted = config.num_partitions if new.partitions == -1 else new.partitions
        _check_cluster(image, len(new.assignments) or wanted, config.cluster_partitions_max)


def _check_cluster(image: ClusterImage, added: int, most: int) -> None:
    """Each partition costs memory and files on its brokers, and time in every failover."""
    present = sum(len(each.partitions) for name, each in image.topics.items() if name not in INTERNAL_TOPICS)
    if added > most - present:
        raise TidelogError(
            f"the cluster would have {present + added:,} partitions; cluster.partitions.max is {most:,}",
            ErrorCode.POLICY_VIOLATION,
        )


def add_partitions(
    image: ClusterImage,
    name: str,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    draft: Draft | None = None,
    cluster_max: int = NO_LIMIT,
) -> PartitionsAdded:
    """``cluster_max``: how many partitions the cluster may have."""
    topic = require(image, name)
    if name in INTERNAL_TOPICS:
        # The partition of a group or transactional id follows from the number of partitions.
        raise TidelogError(
            f"{name} cannot grow: its groups or transactions would be lost", ErrorCode.INVALID_PARTITIONS
        )
    existing = len(topic.partitions)
    if total <= existing:
        raise TidelogError(
            f"topic {name!r} has {existing} partition{'' if existing == 1 else 's'} already; "
            f"their number can only grow",
            ErrorCode.INVALID_PARTITIONS,
        )
    _check_partition_count(total)
    _check_cluster(image, total - existing, cluster_max)
    placed = _place_more(image, topic, total - existing, assignments, draft)
    mode = mode_of(topic.configs)
    return PartitionsAdded(topic.topic_id, placed, _away(image, placed), mode, away_counts(mode))


def _place_more(
    image: ClusterImage,
    topic: TopicImage,
    added: int,
    assignments: Sequence[Sequence[int]] | None,
    draft: Draft | None,
) -> list[list[int]]:
    existing = len(topic.partitions)
    replicas = len(topic.partitions[0].target)
    if assignments is None:
        sites = _sites(image)
        if draft is not None and draft.fits(topic.partitions[0].mode, added, replicas, sites):
            return draft.placed
        return list(_spread_more(image, topic, added, sites))
    if len(assignments) != added:
        raise TidelogError(
            f"{added} partitions are added, {len(assignments)} assignments are given",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    manual = {existing + number: replicas for number, replicas in enumerate(assignments)}
    placed = placement.check_manual(
        manual, sorted(image.brokers), first_partition=existing, replicas=replicas
    )
    _check_available(image, placed, topic.partitions[0].mode, first_partition=existing)
    return placed


def _spread_more(
    image: ClusterImage, topic: TopicImage, added: int, sites: Sequence[Site]
) -> Iterator[list[int]]:
    return spreading_of(topic.partitions[0].mode)(
        sites,
        added,
        len(topic.partitions[0].target),
        topic=[partition.target for partition in topic.partitions],
        elsewhere=_assignments(image, without=topic),
    )


def delete(image: ClusterImage, name: str, config: BrokerConfig) -> TopicDeleted:
    if not config.delete_topic_enable:
        raise TidelogError("delete.topic.enable is false on this cluster", ErrorCode.TOPIC_DELETION_DISABLED)
    return TopicDeleted(require(image, name).topic_id)


def require(image: ClusterImage, name: str) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        raise TidelogError(f"topic {name!r} does not exist", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic
