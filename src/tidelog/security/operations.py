"""Which operation each API needs, on which resource: the rights a client must have been given.

This is the list for people and for tests. The guards of the broker apply it, and a test compares them with
it: with exactly these rights a request passes, and without any one of them it is refused.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.security.acls import Operation, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


class Right(NamedTuple):
    operation: Operation
    kind: ResourceType


class Need(NamedTuple):
    right: Right
    instead: Right | None = None  # is enough, too
    hides: bool = False  # What the right does not cover is left out of the response, which is no error.
    when: str = ""  # only then; empty: always


def _need(operation: Operation, kind: ResourceType, when: str = "", *, hides: bool = False) -> Need:
    return Need(Right(operation, kind), hides=hides, when=when)


_READ_GROUP = _need(Operation.READ, GROUP)
_DESCRIBE_TOPIC = _need(Operation.DESCRIBE, TOPIC)
_ALTER_CLUSTER = _need(Operation.ALTER, CLUSTER)
_DESCRIBE_CLUSTER = _need(Operation.DESCRIBE, CLUSTER)
_NODES_ONLY = _need(Operation.CLUSTER_ACTION, CLUSTER)
_WRITE_TRANSACTIONAL_ID = _need(Operation.WRITE, TRANSACTIONAL_ID)
_IN_TRANSACTION = _need(Operation.WRITE, TRANSACTIONAL_ID, "with a transactional id")
_CREATE_TOPIC = Need(Right(Operation.CREATE, TOPIC), instead=Right(Operation.CREATE, CLUSTER))


def _settings(operation: Operation) -> tuple[Need, ...]:
    return (
        _need(operation, TOPIC, "for topics"),
        _need(operation, GROUP, "for groups"),
        _need(operation, CLUSTER, "for brokers and everything else"),
    )


NEEDS: Mapping[int, tuple[Need, ...]] = {
    0: (_need(Operation.WRITE, TOPIC), _IN_TRANSACTION),  # Produce
    1: (_need(Operation.READ, TOPIC),),  # Fetch
    2: (_DESCRIBE_TOPIC,),  # ListOffsets
    3: (  # Metadata
        _DESCRIBE_TOPIC,
        _need(Operation.DESCRIBE, TOPIC, "for topics that are not named", hides=True),
        _CREATE_TOPIC._replace(when="to create a topic"),
    ),
    8: (_READ_GROUP, _need(Operation.READ, TOPIC)),  # OffsetCommit
    9: (  # OffsetFetch
        _need(Operation.DESCRIBE, GROUP),
        _DESCRIBE_TOPIC,
        _need(Operation.DESCRIBE, TOPIC, "for topics that are not named", hides=True),
    ),
    10: (  # FindCoordinator
        _need(Operation.DESCRIBE, GROUP, "of a group"),
        _need(Operation.DESCRIBE, TRANSACTIONAL_ID, "of a transactional id"),
    ),
    11: (_READ_GROUP,),  # JoinGroup
    12: (_READ_GROUP,),  # Heartbeat
    13: (_READ_GROUP,),  # LeaveGroup
    14: (_READ_GROUP,),  # SyncGroup
    15: (_need(Operation.DESCRIBE, GROUP),),  # DescribeGroups
    16: (  # ListGroups
        Need(Right(Operation.DESCRIBE, GROUP), Right(Operation.DESCRIBE, CLUSTER), hides=True),
    ),
    17: (),  # SaslHandshake
    18: (),  # ApiVersions
    19: (  # CreateTopics
        _CREATE_TOPIC,
        _need(Operation.DESCRIBE_CONFIGS, TOPIC, "to see the settings in the response", hides=True),
    ),
    20: (_need(Operation.DELETE, TOPIC),),  # DeleteTopics
    21: (_need(Operation.DELETE, TOPIC),),  # DeleteRecords
    22: (  # InitProducerId
        _IN_TRANSACTION,
        Need(
            Right(Operation.WRITE, TOPIC),
            instead=Right(Operation.IDEMPOTENT_WRITE, CLUSTER),
            when="without a transactional id; any topic is enough",
        ),
    ),
    23: (_DESCRIBE_TOPIC,),  # OffsetForLeaderEpoch
    # AddPartitionsToTxn, which from version 4 on only nodes send
    24: (_WRITE_TRANSACTIONAL_ID, _need(Operation.WRITE, TOPIC)),
    25: (_WRITE_TRANSACTIONAL_ID, _READ_GROUP),  # AddOffsetsToTxn
    26: (_WRITE_TRANSACTIONAL_ID,),  # EndTxn
    27: (  # WriteTxnMarkers
        Need(Right(Operation.ALTER, CLUSTER), instead=Right(Operation.CLUSTER_ACTION, CLUSTER)),
    ),
    28: (_WRITE_TRANSACTIONAL_ID, _READ_GROUP, _need(Operation.READ, TOPIC)),  # TxnOffsetCommit
    29: (_DESCRIBE_CLUSTER,),  # DescribeAcls
    30: (_ALTER_CLUSTER,),  # CreateAcls
    31: (_ALTER_CLUSTER,),  # DeleteAcls
    32: _settings(Operation.DESCRIBE_CONFIGS),  # DescribeConfigs
    33: _settings(Operation.ALTER_CONFIGS),  # AlterConfigs
    35: (_DESCRIBE_CLUSTER,),  # DescribeLogDirs
    36: (),  # SaslAuthenticate
    37: (_need(Operation.ALTER, TOPIC),),  # CreatePartitions
    38: (),  # CreateDelegationToken: always refused, as are the next three
    39: (),
    40: (),
    41: (),
    42: (_need(Operation.DELETE, GROUP),),  # DeleteGroups
    43: (_ALTER_CLUSTER,),  # ElectLeaders
    44: _settings(Operation.ALTER_CONFIGS),  # IncrementalAlterConfigs
    45: (_ALTER_CLUSTER,),  # AlterPartitionReassignments
    46: (_DESCRIBE_CLUSTER,),  # ListPartitionReassignments
    47: (_need(Operation.DELETE, GROUP), _need(Operation.READ, TOPIC)),  # OffsetDelete
    48: (_need(Operation.DESCRIBE_CONFIGS, CLUSTER),),  # DescribeClientQuotas
    49: (_need(Operation.ALTER_CONFIGS, CLUSTER),),  # AlterClientQuotas
    50: (_DESCRIBE_CLUSTER,),  # DescribeUserScramCredentials
    51: (_ALTER_CLUSTER,),  # AlterUserScramCredentials
    55: (_DESCRIBE_CLUSTER,),  # DescribeQuorum
    60: (),  # DescribeCluster
    61: (_need(Operation.READ, TOPIC),),  # DescribeProducers
    64: (_ALTER_CLUSTER,),  # UnregisterBroker
    65: (  # DescribeTransactions
        _need(Operation.DESCRIBE, TRANSACTIONAL_ID),
        _need(Operation.DESCRIBE, TOPIC, "for topics of the transaction", hides=True),
    ),
    66: (_need(Operation.DESCRIBE, TRANSACTIONAL_ID, hides=True),),  # ListTransactions
    67: (_NODES_ONLY,),  # AllocateProducerIds
    68: (  # ConsumerGroupHeartbeat
        _READ_GROUP,
        _DESCRIBE_TOPIC,
        _need(Operation.DESCRIBE, TOPIC, "for topics that a regular expression matches", hides=True),
    ),
    69: (  # ConsumerGroupDescribe
        _need(Operation.DESCRIBE, GROUP),
        _need(Operation.DESCRIBE, TOPIC, "for topics of the members"),
    ),
    74: (_need(Operation.DESCRIBE_CONFIGS, CLUSTER),),  # ListConfigResources
    75: (  # DescribeTopicPartitions
        _DESCRIBE_TOPIC,
        _need(Operation.DESCRIBE, TOPIC, "for topics that are not named", hides=True),
    ),
    80: (_ALTER_CLUSTER,),  # AddRaftVoter
    81: (_ALTER_CLUSTER,),  # RemoveRaftVoter
    82: (_NODES_ONLY,),  # UpdateRaftVoter
}
"""By API key. APIs that only nodes send, and that have no handler, are not listed: a node is recognised by
its authentication, and all other clients are refused.
"""
