"""The state that the metadata records add up to: an immutable image of the cluster.

``apply`` returns a new image and leaves the old one unchanged, so a request that is being handled sees one
consistent cluster. Dicts are copied once per batch of records, not once per record.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from tidelog.config.modes import DEFAULT
from tidelog.controller.endpoints import Endpoint
from tidelog.controller.records import (
    AclAdded,
    AclRemoved,
    BrokerConfigChanged,
    BrokerFencingChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterFounded,
    GroupConfigChanged,
    Loss,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    SecurityRecord,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from tidelog.controller.security import SecurityDraft, SecurityImage
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
    leaving: bool = False  # is shutting down: leads only what no other broker can lead
    session_lasts: bool = False  # fenced because its connections closed: it may still act on its session
    endpoints: tuple[
        Endpoint, ...
    ] = ()  # for clients, by listener; empty: only ``host`` and ``port`` are known


class PartitionImage(msgspec.Struct, frozen=True):
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int  # -1: no leader
    leader_epoch: int
    partition_epoch: int = 0  # rises with every change; a proposal based on an older one is refused
    # Former members that still hold everything committed; used only while too few members are in sync.
    eligible: tuple[int, ...] = ()
    last_leader: int = -1
    # Epoch of the latest leader that was appointed though it might lack committed records. A replica with an
    # older log may hold such records, and drops them when it follows again.
    unclean_epoch: int = -1
    # Replicas whose logs have failed (until their brokers restart) or are damaged (until they are repaired).
    offline: tuple[int, ...] = ()
    # During a reassignment: the replicas in ``replicas`` that are added, and those that are removed when all
    # others are in sync.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # The present mode. The topic's setting is the wanted mode: the two differ while a change of mode is in
    # progress.
    mode: str = DEFAULT
    mode_epoch: int = 0  # Leader epoch in which it came to this mode; 0 if it was created in it.
    heir: int = -1  # Where the replicas vote: the replica that should replace the present leader; -1: none.
    # Where the replicas vote: one for each replica that is neither in sync nor eligible, in their order.
    losses: tuple[Loss, ...] = ()
    # Settings whose promise does not yet hold for everything that was acknowledged before; see
    # :mod:`tidelog.controller.promises`. ``unsynced``: replicas that have not confirmed yet that their whole
    # log is synced.
    unsynced: tuple[int, ...] = ()
    # This many were enough for an acknowledgement, though more are required now; 0: as many as required.
    copies: int = 0
    promise_epoch: int = 0  # Rises whenever the settings promise more than before; a confirmation names it.
    synced_since: int = -1  # Leader epoch in which the last replica confirmed that it is synced.
    acted_epoch: int = 0  # Epoch of the last leader that was a member, and so could acknowledge records.
    # Offline replicas whose logs could not be opened, written or synced. They still hold what was synced.
    unwritable: tuple[int, ...] = ()
    # Where only the number of copies counts (``primary-backup``): all replicas that stay have caught up once,
    # copies on the removed replicas do not count any more, and the leader has not confirmed yet that the
    # others hold its whole log.
    ending: bool = False
    # Where the replicas vote, during a reassignment: the voters that a leader last reported. Empty: all
    # replicas except those in ``adding``.
    voters: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment. The first one is preferred as leader."""
        if not self.removing:
            return self.replicas
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def uncounted(self) -> tuple[int, ...]:
        """Replicas whose copies do not count for acknowledgements any more, because they are about to be
        removed.
        """
        return self.removing if self.ending else ()

    @property
    def remember(self) -> frozenset[int]:
        """Where the replicas vote: those that hold everything they acknowledged, and know how they voted."""
        return frozenset((*self.in_sync, *self.eligible))

    @property
    def known_voters(self) -> frozenset[int]:
        """Where the replicas vote: the last voter set that was reported to the controllers. During a
        reassignment the leader is at most one step ahead of it.
        """
        return frozenset(self.voters) or frozenset(self.replicas).difference(self.adding)

    @property
    def damaged(self) -> frozenset[int]:
        """Replicas that lack synced records, or are about to drop some: all that are offline and did not
        report that they are only unwritable. Records of earlier versions do not distinguish the two.
        """
        return frozenset(self.offline).difference(self.unwritable)

    def loss_of(self, replica: int) -> Loss | None:
        return next((loss for loss in self.losses if loss.replica == replica), None)

    @property
    def doubtful_epoch(self) -> int:
        """Records of this leader epoch, or earlier ones, may have been acknowledged without being synced,
        even where all acknowledgements require a sync now.
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
    # Dynamic settings, by broker id; "" holds the default of all brokers.
    broker_configs: Mapping[str, Mapping[str, str]] = {}
    next_producer_id: int = 0  # all ids below it are assigned, or reserved by a broker
    last_broker_epoch: int = 0  # the highest ever assigned, also to removed brokers: none is assigned twice
    gone: Mapping[int, int] = {}  # unregistered broker → epoch of its unregistration
    group_configs: Mapping[str, Mapping[str, str]] = {}  # overrides, of groups that have some
    security: SecurityImage = SecurityImage()  # the same object until one of its records is applied

    def registration_epoch(self, broker_id: int) -> int:
        """Epoch of its last registration or unregistration; 0: never registered."""
        broker = self.brokers.get(broker_id)
        return self.gone.get(broker_id, 0) if broker is None else broker.broker_epoch

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def apply(self, records: Iterable[MetadataRecord]) -> "ClusterImage":
        draft = ImageDraft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()


class ImageDraft:
    """A mutable copy while records are applied."""

    def __init__(self, image: ClusterImage) -> None:
        self.cluster_id = image.cluster_id
        self.brokers = dict(image.brokers)
        self.topics = dict(image.topics)
        self.topic_names = dict(image.topic_names)
        self.broker_configs = dict(image.broker_configs)
        self.next_producer_id = image.next_producer_id
        self.last_broker_epoch = image.last_broker_epoch
        self.gone = dict(image.gone)
        self.group_configs = dict(image.group_configs)
        self._security = image.security
        self._security_draft: SecurityDraft | None = None
        # Partitions of topics that are being changed. Changing one at a time would copy the whole topic each
        # time.
        self._changing: dict[UUID, list[PartitionImage]] = {}

    def finish(self) -> ClusterImage:
        """The image. The draft is of no use afterwards."""
        for topic_id in list(self._changing):
            self._topic(topic_id)
        security = self._security if self._security_draft is None else self._security_draft.finish()
        return ClusterImage(
            self.cluster_id, self.brokers, self.topics, self.topic_names, self.broker_configs,
            self.next_producer_id, self.last_broker_epoch, self.gone, self.group_configs, security,
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
            case GroupConfigChanged(group, changes):
                overrides = _changed(self.group_configs.pop(group, {}), changes)
                if overrides:
                    self.group_configs[group] = overrides
            case ProducerIdsReserved(next_id):
                invariant(next_id > self.next_producer_id, "producer ids only rise", next_id)
                self.next_producer_id = next_id
            case (
                ScramCredentialChanged()
                | ScramCredentialRemoved()
                | AclAdded()
                | AclRemoved()
                | ClientQuotaChanged()
            ):
                self._change_security(record)
            case ClusterFounded(cluster_id):
                invariant(not self.cluster_id, "a cluster is founded once", self.cluster_id, cluster_id)
                self.cluster_id = cluster_id

    def _change_security(self, record: SecurityRecord) -> None:
        if self._security_draft is None:
            self._security_draft = SecurityDraft(self._security)
        self._security_draft.apply(record)

    def _change_broker(self, record: BrokerRegistered | BrokerFencingChanged | BrokerUnregistered) -> None:
        match record:
            case BrokerRegistered(
                broker_id, incarnation, host, port, rack, broker_epoch, fenced, directory, endpoints
            ):
                self.brokers[broker_id] = BrokerImage(
                    broker_id, incarnation, host, port, rack, broker_epoch, fenced, directory,
                    endpoints=tuple(endpoints or ()),
                )  # fmt: skip
                self.last_broker_epoch = max(self.last_broker_epoch, broker_epoch)
                self.gone.pop(broker_id, None)
            case BrokerFencingChanged(broker_id, fenced, leaving, session_lasts):
                self.brokers[broker_id] = msgspec.structs.replace(
                    self.brokers[broker_id], fenced=fenced, leaving=leaving, session_lasts=session_lasts
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
        invariant(bool(members), "a new partition needs an available replica", replicas, absent)
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
