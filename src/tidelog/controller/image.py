"""What the metadata records add up to: an immutable picture of the cluster.

``apply`` returns a new image and leaves the old one as it was, so a request that is being answered keeps
seeing one consistent cluster. Dicts are copied once per batch of records, not once per record.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from tidelog.config.modes import DEFAULT
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerFencingChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterFounded,
    Loss,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from tidelog.invariant import invariant

EPOCH_MAX = (1 << 31) - 1


class BrokerImage(msgspec.Struct, frozen=True):
    broker_id: int
    incarnation: UUID
    host: str
    port: int
    rack: str | None
    broker_epoch: int = 0
    fenced: bool = False
    directory: UUID | None = None  # of its data
    leaving: bool = False  # wants to stop: leads nothing that somebody else can lead


class PartitionImage(msgspec.Struct, frozen=True):
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int  # -1 when nobody leads
    leader_epoch: int
    partition_epoch: int = 0  # rises with every change; a proposal based on an older one is refused
    eligible: tuple[
        int, ...
    ] = ()  # former members that hold everything committed; only while too few are in sync
    last_leader: int = -1
    # Epoch of the latest leader that was chosen though committed records might be missing from it. A replica
    # whose log is older may hold such records, and gives them up when it follows again.
    unclean_epoch: int = -1
    # Replicas whose logs have failed, until their brokers start again, or are damaged, until repaired.
    offline: tuple[int, ...] = ()
    # While replicas are moved: those of ``replicas`` that come, and those that go when all others are in
    # sync.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # How it is replicated now. The topic's setting says how it shall be: the two differ while a change of
    # mode is under way.
    mode: str = DEFAULT
    mode_epoch: int = 0  # The leader epoch with which it came to this mode; 0 when it was created so.
    heir: int = -1  # Where the replicas vote: who shall lead instead of the present leader.
    # Where the replicas vote: one for each replica that is neither in sync nor eligible, in their order.
    losses: tuple[Loss, ...] = ()
    # What the settings promise and is not yet so for everything that was acknowledged before; see
    # :mod:`tidelog.controller.promises`. Replicas that have yet to confirm that all they hold is synced:
    unsynced: tuple[int, ...] = ()
    copies: int = 0  # So few were enough for an ok, though more are asked for now; 0: as many as that.
    promise_epoch: int = 0  # Rises whenever more is promised than before; what is confirmed names it.
    synced_since: int = -1  # The leader epoch in which the last replica confirmed.
    acted_epoch: int = 0  # Of the last leader that was a member, and so could acknowledge anything.
    # Of those offline: logs that could not be opened, written or synced. What was synced is still in them.
    unwritable: tuple[int, ...] = ()
    # Where so many copies are enough, whoever has them: all that are to stay have caught up once, copies on
    # those that go count no more, and the leader has yet to confirm that the others hold all of its log.
    ending: bool = False
    # Where the replicas vote, while they are moved: the voters, as a leader last told of them. Empty: the
    # replicas, without those that come.
    voters: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas as they are to be; the first one is preferred as leader."""
        if not self.removing:
            return self.replicas
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def uncounted(self) -> tuple[int, ...]:
        """Replicas whose copies make no acknowledgement any more: they are about to go."""
        return self.removing if self.ending else ()

    @property
    def remember(self) -> frozenset[int]:
        """Where the replicas vote: those that hold all they ever acknowledged, and know how they voted."""
        return frozenset((*self.in_sync, *self.eligible))

    @property
    def known_voters(self) -> frozenset[int]:
        """Where the replicas vote: those of the last set that the controllers were told of. While replicas
        are moved, the leader goes no more than one step beyond it.
        """
        return frozenset(self.voters) or frozenset(self.replicas).difference(self.adding)

    @property
    def damaged(self) -> frozenset[int]:
        """Replicas that lack synced records, or are about to drop some. All that are offline, as long as they
        did not say that they are only unwritable: records of earlier versions do not tell the two apart.
        """
        return frozenset(self.offline).difference(self.unwritable)

    def loss_of(self, replica: int) -> Loss | None:
        return next((loss for loss in self.losses if loss.replica == replica), None)

    @property
    def doubtful_epoch(self) -> int:
        """What was written in this leader epoch, or before, may have been acknowledged without being synced,
        also where all acknowledgements mean that by now.
        """
        return EPOCH_MAX if self.unsynced else self.synced_since

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


class TopicImage(msgspec.Struct, frozen=True):
    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]  # overrides only


class ClusterImage(msgspec.Struct, frozen=True):
    cluster_id: str = ""
    brokers: Mapping[int, BrokerImage] = {}
    topics: Mapping[str, TopicImage] = {}
    topic_names: Mapping[UUID, str] = {}
    broker_configs: Mapping[
        str, Mapping[str, str]
    ] = {}  # dynamic ones, by broker id; "" is everyone's default
    next_producer_id: int = 0  # all below are given out, or reserved by a broker that will
    last_broker_epoch: int = 0  # the highest ever given, also to brokers that are gone: none is given twice
    gone: Mapping[int, int] = {}  # broker that is unregistered → the epoch that this took

    def registration_epoch(self, broker_id: int) -> int:
        """When it was last registered, or unregistered; 0: never."""
        broker = self.brokers.get(broker_id)
        return self.gone.get(broker_id, 0) if broker is None else broker.broker_epoch

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def apply(self, records: Iterable[MetadataRecord]) -> "ClusterImage":
        draft = _Draft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()


class _Draft:
    """A mutable copy while a batch of records is applied."""

    def __init__(self, image: ClusterImage) -> None:
        self.cluster_id = image.cluster_id
        self.brokers = dict(image.brokers)
        self.topics = dict(image.topics)
        self.topic_names = dict(image.topic_names)
        self.broker_configs = dict(image.broker_configs)
        self.next_producer_id = image.next_producer_id
        self.last_broker_epoch = image.last_broker_epoch
        self.gone = dict(image.gone)
        # Partitions of topics that are being changed: one at a time would copy the whole topic for each.
        self._changing: dict[UUID, list[PartitionImage]] = {}

    def finish(self) -> ClusterImage:
        for topic_id in list(self._changing):
            self._topic(topic_id)
        return ClusterImage(
            self.cluster_id, self.brokers, self.topics, self.topic_names, self.broker_configs,
            self.next_producer_id, self.last_broker_epoch, self.gone,
        )  # fmt: skip

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case PartitionChanged():
                self._change_partition(record)
            case TopicCreated() | PartitionsAdded() | TopicDeleted() | TopicConfigChanged():
                self._change_topic(record)
            case BrokerRegistered() | BrokerFencingChanged() | BrokerUnregistered():
                self._change_broker(record)
            case BrokerConfigChanged(broker, changes):
                self.broker_configs[broker] = _changed(self.broker_configs.get(broker, {}), changes)
            case ProducerIdsReserved(next_id):
                invariant(next_id > self.next_producer_id, "producer ids only rise", next_id)
                self.next_producer_id = next_id
            case ClusterFounded(cluster_id):
                invariant(not self.cluster_id, "a cluster is founded once", self.cluster_id, cluster_id)
                self.cluster_id = cluster_id

    def _change_broker(self, record: BrokerRegistered | BrokerFencingChanged | BrokerUnregistered) -> None:
        match record:
            case BrokerRegistered(broker_id, incarnation, host, port, rack, broker_epoch, fenced, directory):
                self.brokers[broker_id] = BrokerImage(
                    broker_id, incarnation, host, port, rack, broker_epoch, fenced, directory
                )
                self.last_broker_epoch = max(self.last_broker_epoch, broker_epoch)
                self.gone.pop(broker_id, None)
            case BrokerFencingChanged(broker_id, fenced, leaving):
                self.brokers[broker_id] = msgspec.structs.replace(
                    self.brokers[broker_id], fenced=fenced, leaving=leaving
                )
            case BrokerUnregistered(broker_id):
                del self.brokers[broker_id]
                self.last_broker_epoch += 1
                self.gone[broker_id] = self.last_broker_epoch
                self.broker_configs.pop(str(broker_id), None)

    def _change_topic(
        self, record: TopicCreated | PartitionsAdded | TopicDeleted | TopicConfigChanged
    ) -> None:
        match record:
            case TopicCreated(name, topic_id, assignments, configs, away, mode, away_counts):
                invariant(name not in self.topics, "a topic is created once", name)
                self.topics[name] = TopicImage(
                    name, topic_id, _new_partitions(assignments, away, mode, away_counts), configs
                )
                self.topic_names[topic_id] = name
            case PartitionsAdded(topic_id, assignments, away, mode, away_counts):
                topic = self._topic(topic_id)
                partitions = topic.partitions + _new_partitions(assignments, away, mode, away_counts)
                self.topics[topic.name] = msgspec.structs.replace(topic, partitions=partitions)
            case TopicDeleted(topic_id):
                del self.topics[self._topic(topic_id).name]
                del self.topic_names[topic_id]
            case TopicConfigChanged(topic_id, changes):
                topic = self._topic(topic_id)
                self.topics[topic.name] = msgspec.structs.replace(
                    topic, configs=_changed(topic.configs, changes)
                )

    def _change_partition(self, record: PartitionChanged) -> None:
        partitions = self._changing.get(record.topic_id)
        if partitions is None:
            partitions = self._changing[record.topic_id] = list(self._topic(record.topic_id).partitions)
        old = partitions[record.partition]
        invariant(record.leader_epoch >= old.leader_epoch, "leader epochs only rise", record, old)
        partitions[record.partition] = PartitionImage(
            old.replicas if record.replicas is None else tuple(record.replicas),
            tuple(record.in_sync),
            record.leader,
            record.leader_epoch,
            old.partition_epoch + 1,
            tuple(record.eligible),
            record.last_leader,
            record.leader_epoch if record.unclean else old.unclean_epoch,
            tuple(record.offline),
            tuple(record.adding),
            tuple(record.removing),
            record.mode,
            record.mode_epoch,
            record.heir,
            tuple(record.losses),
            tuple(record.unsynced),
            record.copies,
            record.promise_epoch,
            record.synced_since,
            record.leader_epoch if record.leader in record.in_sync else old.acted_epoch,
            tuple(record.unwritable),
            record.ending,
            tuple(record.voters),
        )

    def _topic(self, topic_id: UUID) -> TopicImage:
        invariant(topic_id in self.topic_names, "a metadata record names an unknown topic", topic_id)
        name = self.topic_names[topic_id]
        changed = self._changing.pop(topic_id, None)
        if changed is not None:
            self.topics[name] = msgspec.structs.replace(self.topics[name], partitions=tuple(changed))
        return self.topics[name]


def _new_partitions(
    assignments: Iterable[Iterable[int]], away: Iterable[int], mode: str, away_counts: bool
) -> tuple[PartitionImage, ...]:
    absent = frozenset(away)
    partitions = []
    for replicas in map(tuple, assignments):
        members = tuple(replica for replica in replicas if replica not in absent) if absent else replicas
        invariant(bool(members), "a partition is created with a replica that is there", replicas, absent)
        eligible = tuple(replica for replica in replicas if replica in absent) if away_counts else ()
        partitions.append(
            PartitionImage(
                replicas, members, members[0], 0, eligible=eligible, last_leader=members[0], mode=mode
            )
        )
    return tuple(partitions)


def _changed(current: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    result = dict(current)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result
