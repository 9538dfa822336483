"""The typed records of the metadata log. After a release, fields are only added to a record, never renamed.

They are stored as JSON, one per record of the log, so that ``tidelog log dump`` shows the cluster's history
in plain text.
"""

from uuid import UUID

import msgspec

from tidelog.config.modes import DEFAULT
from tidelog.controller.endpoints import Endpoint
from tidelog.errors import StorageError
from tidelog.security.quota_entities import QuotaEntity


class ClusterFounded(msgspec.Struct, frozen=True, tag="cluster-founded"):
    cluster_id: str


class BrokerRegistered(msgspec.Struct, frozen=True, tag="broker-registered"):
    broker_id: int
    incarnation: UUID  # new with every start of the process
    host: str
    port: int
    rack: str | None = None
    # rises with every registration; messages of older processes of the broker are refused
    broker_epoch: int = 0
    fenced: bool = False
    directory: UUID | None = None  # of its data
    # for clients, by listener; not there: ``host`` and ``port`` are for all
    endpoints: list[Endpoint] | msgspec.UnsetType = msgspec.UNSET


class BrokerFencingChanged(msgspec.Struct, frozen=True, tag="broker-fencing-changed"):
    """A fenced broker leads nothing and is a member of nothing."""

    broker_id: int
    fenced: bool
    leaving: bool = False  # is shutting down: leads only what no other broker can lead
    session_lasts: bool = False  # fenced because its connections closed: it may still act on its session


class BrokerUnregistered(msgspec.Struct, frozen=True, tag="broker-unregistered"):
    """The broker is removed from the cluster, together with its settings."""

    broker_id: int


class TopicCreated(msgspec.Struct, frozen=True, tag="topic-created"):
    """A topic with all its partitions: one record, so that a crash cannot leave half a topic."""

    name: str
    topic_id: UUID
    assignments: list[list[int]]  # replicas of each partition; the first one is preferred as leader
    configs: dict[str, str]
    away: list[int] = []  # those of these brokers that were fenced: not members until they have caught up
    mode: str = DEFAULT  # mode of its partitions
    # brokers in ``away`` are eligible anyway: the replicas vote, and all start empty
    away_counts: bool = False


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions-added"):
    topic_id: UUID
    # of the new partitions only; their numbers continue those of the existing ones
    assignments: list[list[int]]
    away: list[int] = []  # as in TopicCreated
    mode: str = DEFAULT
    away_counts: bool = False


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """A voting replica lost data that it had acknowledged, or holds none of it yet. It does not count as a
    voter with complete data until its leader has readmitted it for this loss.
    """

    replica: int
    number: int  # Rises with every loss of the partition: the partition epoch that recorded it.
    # Only unsynced records are lost, in a power failure: the log is a prefix of what it was. False: the
    # replica came back empty, dropped damaged records, or never held what was committed.
    tail: bool = False
    # For a lost tail: the number of the earlier loss that was more than a tail and whose readmission was not
    # reported; otherwise -1. Voter sets are synced, so a log that contains that readmission still does after
    # the power failure.
    base: int = -1
    # It has lost nothing that it acknowledged, and knows how it voted: it was behind or unavailable when the
    # replicas began to vote, or a reassignment adds it.
    late: bool = False


class PartitionChanged(msgspec.Struct, frozen=True, omit_defaults=True, tag="partition-changed"):
    """The complete state of a partition from now on, so that a reader needs no history."""

    topic_id: UUID
    partition: int
    leader: int  # -1: no leader
    leader_epoch: int
    in_sync: list[int]
    eligible: list[int]  # former members that still hold everything committed
    last_leader: int
    unclean: bool = False  # the leader was appointed though it may lack committed records
    replicas: list[int] | None = None  # None: unchanged
    offline: list[int] = []  # replicas whose logs have failed or are damaged; they do not take part
    adding: list[int] = []  # those of the replicas that a reassignment adds
    removing: list[int] = []  # those that it removes when all others are in sync
    mode: str = DEFAULT  # mode from now on
    mode_epoch: int = 0  # leader epoch in which it came to this mode
    heir: int = -1  # where the replicas vote: the replica that should replace the leader
    losses: list[Loss] = []  # where the replicas vote: one for every replica that has not been readmitted
    unsynced: list[int] = []  # replicas that have not confirmed yet that their whole log is synced
    # This many were enough for an acknowledgement, though more are required now; 0: as many as required.
    copies: int = 0
    promise_epoch: int = 0  # how often the promise became stronger
    synced_since: int = -1  # leader epoch in which the last replica confirmed
    unwritable: list[int] = []  # offline replicas whose log cannot be used, but still holds what was synced
    # copies on replicas in ``removing`` do not count any more; not confirmed by the leader yet
    ending: bool = False
    # Where the replicas vote, during a reassignment: the voters. Empty: all replicas except those in
    # ``adding``.
    voters: list[int] = []


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic-deleted"):
    topic_id: UUID


class TopicConfigChanged(msgspec.Struct, frozen=True, tag="topic-config-changed"):
    topic_id: UUID
    changes: dict[str, str | None]  # None removes the override


class BrokerConfigChanged(msgspec.Struct, frozen=True, tag="broker-config-changed"):
    broker: str  # a broker id, or "" for the default of all brokers
    changes: dict[str, str | None]


class GroupConfigChanged(msgspec.Struct, frozen=True, tag="group-config-changed"):
    group: str
    changes: dict[str, str | None]


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer-ids-reserved"):
    """Every producer id below ``next_id`` is reserved and never assigned again."""

    next_id: int


class ScramCredentialChanged(msgspec.Struct, frozen=True, tag="scram-credential-changed"):
    """What the brokers keep of a user's password."""

    user: str
    mechanism: str  # as in SASL, for instance SCRAM-SHA-256
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        # The keys are as secret as a password's hash: no log line and no error shows them.
        return f"ScramCredentialChanged({self.user!r}, {self.mechanism}, iterations={self.iterations})"


class ScramCredentialRemoved(msgspec.Struct, frozen=True, tag="scram-credential-removed"):
    user: str
    mechanism: str


class AclAdded(msgspec.Struct, frozen=True, tag="acl-added"):
    """An access rule. All but the names are Kafka's constants, in capitals."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclRemoved(msgspec.Struct, frozen=True, tag="acl-removed"):
    """The fields are those of the rule, which has no other identity."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class ClientQuotaChanged(msgspec.Struct, frozen=True, tag="client-quota-changed"):
    entity: QuotaEntity
    changes: dict[str, float | None]  # None removes the limit


SecurityRecord = ScramCredentialChanged | ScramCredentialRemoved | AclAdded | AclRemoved | ClientQuotaChanged

MetadataRecord = (
    ClusterFounded
    | BrokerRegistered
    | BrokerFencingChanged
    | BrokerUnregistered
    | TopicCreated
    | PartitionsAdded
    | PartitionChanged
    | TopicDeleted
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | ProducerIdsReserved
    | SecurityRecord
)

SECRET_FIELDS = frozenset({"salt", "stored_key", "server_key"})
"""Not shown by tools that print records."""

_decoder: msgspec.json.Decoder[MetadataRecord] = msgspec.json.Decoder(MetadataRecord)
_encoder = msgspec.json.Encoder()


def encode(record: MetadataRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> MetadataRecord:
    """Refuses unknown records: ignoring one would lead to another state than that of the log."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read a metadata record: {error}; is it from a newer version?") from None
