"""The guard of every API that has a handler. What each of them asks for is in
:mod:`tidelog.security.operations`.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.guards import cluster, groups, topics, transactions
from tidelog.broker.guards.parts import (
    Admitted,
    Forbidden,
    Guard,
    GuardedRequest,
    TopicShape,
    each_name,
    each_topic,
    free,
)
from tidelog.broker.requests.access import access_of
from tidelog.broker.requests.request import RequestContext
from tidelog.security.acls import Operation

NAMES = TopicShape()
EPOCHS = TopicShape(name="topic", number="partition", number_in_response="partition")
PRODUCERS = TopicShape(partitions="partition_indexes", number=None)

_groups_described = each_name(
    "groups",
    lambda access, name: access.group(Operation.DESCRIBE, name),
    "groups",
    groups.refused_group,
)
_consumer_groups_described = each_name(
    "group_ids",
    lambda access, name: access.group(Operation.DESCRIBE, name),
    "groups",
    groups.refused_group,
)
_groups_deleted = each_name(
    "groups_names",
    lambda access, name: access.group(Operation.DELETE, name),
    "results",
    groups.refused_group,
)
_transactions_described = each_name(
    "transactional_ids",
    lambda access, name: access.transactional_id(Operation.DESCRIBE, name),
    "transaction_states",
    transactions.refused,
)

GUARDS: Mapping[int, Guard] = {
    2: each_topic(Operation.DESCRIBE, NAMES),  # ListOffsets
    3: free,  # Metadata: the handler asks
    8: groups.commit,  # OffsetCommit
    9: groups.fetch_offsets,  # OffsetFetch
    10: groups.coordinator,  # FindCoordinator
    11: groups.group(Operation.READ),  # JoinGroup
    12: groups.group(Operation.READ),  # Heartbeat
    13: groups.group(Operation.READ),  # LeaveGroup
    14: groups.group(Operation.READ),  # SyncGroup
    15: _groups_described,  # DescribeGroups
    16: free,  # ListGroups: the handler asks
    17: free,  # SaslHandshake
    18: free,  # ApiVersions
    19: topics.create,  # CreateTopics
    20: topics.delete,  # DeleteTopics
    21: each_topic(Operation.DELETE, NAMES),  # DeleteRecords
    22: transactions.producer_id,  # InitProducerId
    23: each_topic(Operation.DESCRIBE, EPOCHS),  # OffsetForLeaderEpoch
    24: transactions.add_partitions,  # AddPartitionsToTxn
    25: transactions.add_offsets,  # AddOffsetsToTxn
    26: transactions.transaction,  # EndTxn
    27: cluster.markers,  # WriteTxnMarkers
    28: groups.commit_in_transaction,  # TxnOffsetCommit
    29: cluster.cluster(Operation.DESCRIBE),  # DescribeAcls
    30: cluster.cluster_for_each(Operation.ALTER, 30),  # CreateAcls
    31: cluster.cluster_for_each(Operation.ALTER, 31),  # DeleteAcls
    32: cluster.resources(Operation.DESCRIBE_CONFIGS, "results"),  # DescribeConfigs
    33: cluster.resources(Operation.ALTER_CONFIGS, "responses"),  # AlterConfigs
    35: cluster.cluster(Operation.DESCRIBE),  # DescribeLogDirs
    36: free,  # SaslAuthenticate
    37: topics.add_partitions,  # CreatePartitions
    38: free,  # CreateDelegationToken: always refused, as are the next three
    39: free,
    40: free,
    41: free,
    42: _groups_deleted,  # DeleteGroups
    43: cluster.cluster(Operation.ALTER),  # ElectLeaders
    44: cluster.resources(Operation.ALTER_CONFIGS, "responses"),  # IncrementalAlterConfigs
    45: cluster.cluster(Operation.ALTER),  # AlterPartitionReassignments
    46: cluster.cluster(Operation.DESCRIBE),  # ListPartitionReassignments
    47: groups.delete_offsets,  # OffsetDelete
    48: cluster.quotas_shown,  # DescribeClientQuotas
    49: cluster.cluster_for_each(Operation.ALTER_CONFIGS, 49),  # AlterClientQuotas
    50: cluster.users_shown,  # DescribeUserScramCredentials
    51: cluster.cluster_for_each(Operation.ALTER, 51),  # AlterUserScramCredentials
    55: cluster.cluster(Operation.DESCRIBE),  # DescribeQuorum
    60: free,  # DescribeCluster
    61: each_topic(Operation.READ, PRODUCERS),  # DescribeProducers
    64: cluster.cluster(Operation.ALTER),  # UnregisterBroker
    65: groups.both(_transactions_described, transactions.described),  # DescribeTransactions
    66: free,  # ListTransactions: the handler asks
    67: cluster.cluster(Operation.CLUSTER_ACTION),  # AllocateProducerIds
    68: groups.heartbeat,  # ConsumerGroupHeartbeat
    69: groups.both(_consumer_groups_described, groups.consumer_groups_described),  # ConsumerGroupDescribe
    74: cluster.cluster(Operation.DESCRIBE_CONFIGS),  # ListConfigResources
    75: free,  # DescribeTopicPartitions: the handler asks
    80: cluster.cluster(Operation.ALTER),  # AddRaftVoter
    81: cluster.cluster(Operation.ALTER),  # RemoveRaftVoter
    82: cluster.cluster(Operation.CLUSTER_ACTION),  # UpdateRaftVoter
}


def admit(broker: Broker, request: Any, context: RequestContext) -> Admitted | Forbidden:
    """What is left of a request under the access rules. An API without a guard is refused whole."""
    access = access_of(broker, context)
    if access is None:
        return Admitted(request)
    guard = GUARDS.get(context.api_key, cluster.cluster(Operation.CLUSTER_ACTION))
    return guard(GuardedRequest(request, access, broker.image, context.version))
