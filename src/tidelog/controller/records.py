"""The typed records of the metadata log. Once released, a record's fields are only added to, never renamed.

They are stored as JSON, one record of the log each, so that ``tidelog log dump`` shows the cluster's history
in plain text.
"""

from uuid import UUID

import msgspec

from tidelog.config.modes import DEFAULT
from tidelog.errors import StorageError


class ClusterFounded(msgspec.Struct, frozen=True, tag="cluster-founded"):
    cluster_id: str


class BrokerRegistered(msgspec.Struct, frozen=True, tag="broker-registered"):
    broker_id: int
    incarnation: UUID  # new with every start of the process
    host: str
    port: int
    rack: str | None = None
    broker_epoch: int = 0  # rises with every registration; what an older run of the broker says is refused
    fenced: bool = False
    directory: UUID | None = None  # of its data


class BrokerFencingChanged(msgspec.Struct, frozen=True, tag="broker-fencing-changed"):
    """A fenced broker leads nothing and is a member of nothing."""

    broker_id: int
    fenced: bool
    leaving: bool = False  # wants to stop: leads nothing that somebody else can lead


class BrokerUnregistered(msgspec.Struct, frozen=True, tag="broker-unregistered"):
    """The cluster knows nothing of this broker any more, its settings included."""

    broker_id: int


class TopicCreated(msgspec.Struct, frozen=True, tag="topic-created"):
    """A topic with all its partitions: one record, so that a crash cannot leave half a topic."""

    name: str
    topic_id: UUID
    assignments: list[list[int]]  # replicas of each partition; the first one is preferred as leader
    configs: dict[str, str]
    away: list[int] = []  # of these brokers, those that were fenced: no members until they have caught up
    mode: str = DEFAULT  # how its partitions are replicated
    away_counts: bool = False  # who is away is eligible all the same: the replicas vote, and all begin empty


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions-added"):
    topic_id: UUID
    assignments: list[list[int]]  # of the new partitions only, numbered on from the existing ones
    away: list[int] = []  # as in TopicCreated
    mode: str = DEFAULT
    away_counts: bool = False


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """A replica of voters lost data that it had acknowledged, or holds none of it yet. It does not count as a
    voter that remembers until its leader has readmitted it for this very loss.
    """

    replica: int
    number: int  # Rises with every loss of the partition: the partition epoch that recorded it.
    # Only what was not synced is gone, in a power failure: the log is a prefix of what it was. False: the
    # replica came back empty, dropped damaged records, or never held what was committed.
    tail: bool = False
    # Of a lost tail: the loss before it that was more than that, and of whose healing nobody had told; or -1.
    # Voter sets are synced: a log that tells of that readmission still does after the power failure.
    base: int = -1
    # It has lost nothing that it acknowledged, and knows how it voted: when the replicas began to vote it was
    # behind or away, or it is one that a move brings.
    late: bool = False


class PartitionChanged(msgspec.Struct, frozen=True, omit_defaults=True, tag="partition-changed"):
    """Who leads and who is in sync from now on; all of it, so that a reader needs no history."""

    topic_id: UUID
    partition: int
    leader: int  # -1 when nobody can lead
    leader_epoch: int
    in_sync: list[int]
    eligible: list[int]  # former members that still hold everything committed
    last_leader: int
    unclean: bool = False  # the leader was chosen though committed records may be missing from it
    replicas: list[int] | None = None  # None: unchanged
    offline: list[int] = []  # replicas whose logs have failed or are damaged; they take part in nothing
    adding: list[int] = []  # of the replicas, those that a reassignment brings
    removing: list[int] = []  # and those that go when all of the others are in sync
    mode: str = DEFAULT  # how it is replicated from now on
    mode_epoch: int = 0  # since which leader epoch it is
    heir: int = -1  # where the replicas vote: who shall lead instead
    losses: list[Loss] = []  # where the replicas vote: one for every replica that has not been readmitted
    unsynced: list[int] = []  # replicas that have yet to confirm that all they hold is synced
    copies: int = (
        0  # so few were enough for an ok, though more are asked for now; 0: as many as are asked for
    )
    promise_epoch: int = 0  # how often more was promised than before
    synced_since: int = -1  # leader epoch in which the last one confirmed
    unwritable: list[int] = []  # of those offline: the log refuses to be used, but what was synced is there
    ending: bool = False  # copies on those that go do not count any more; the leader has yet to confirm it
    # Where the replicas vote, while they are moved: who votes. Empty: all but those that come.
    voters: list[int] = []


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic-deleted"):
    topic_id: UUID


class TopicConfigChanged(msgspec.Struct, frozen=True, tag="topic-config-changed"):
    topic_id: UUID
    changes: dict[str, str | None]  # None removes the override


class BrokerConfigChanged(msgspec.Struct, frozen=True, tag="broker-config-changed"):
    broker: str  # a broker id, or "" for the default of all brokers
    changes: dict[str, str | None]


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer-ids-reserved"):
    """Every producer id below ``next_id`` belongs to somebody: none of them is ever given out again."""

    next_id: int


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
    | ProducerIdsReserved
)

_decoder: msgspec.json.Decoder[MetadataRecord] = msgspec.json.Decoder(MetadataRecord)
_encoder = msgspec.json.Encoder()


def encode(record: MetadataRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> MetadataRecord:
    """Refuses what it does not understand: going on without it would give another cluster than the log's."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(
            f"a metadata record cannot be read: {error}; is it from a newer version?"
        ) from None
