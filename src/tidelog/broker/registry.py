"""The APIs that this broker serves, with versions and handlers. ApiVersions returns this list to clients."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.broker.broker import Broker
from tidelog.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_raft_voter,
    write_txn_markers,
)
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.protocol import fetch, produce
from tidelog.protocol.messages import known_versions

Handler = Callable[[Broker, Any, RequestContext], Outcome]


class ServedApi(NamedTuple):
    key: int
    oldest: int
    newest: int
    handler: Handler | None  # None: Produce and Fetch, which decode their frames themselves
    announced: bool = True  # False: sent only by brokers


def _api(key: int, handler: Handler) -> ServedApi:
    return ServedApi(key, *known_versions(key), handler)


SERVED: dict[int, ServedApi] = {
    api.key: api
    for api in (
        ServedApi(produce.API_KEY, *produce.VERSIONS, None),
        ServedApi(fetch.API_KEY, *fetch.VERSIONS, None),
        _api(2, list_offsets.handle),
        _api(3, metadata.handle),
        _api(8, offset_commit.handle),
        _api(9, offset_fetch.handle),
        _api(10, find_coordinator.handle),
        _api(11, join_group.handle),
        _api(12, heartbeat.handle),
        _api(13, leave_group.handle),
        _api(14, sync_group.handle),
        _api(15, describe_groups.handle),
        _api(16, list_groups.handle),
        ServedApi(17, *sasl_handshake.VERSIONS, sasl_handshake.handle),
        _api(18, api_versions.handle),
        _api(19, create_topics.handle),
        _api(20, delete_topics.handle),
        _api(21, delete_records.handle),
        _api(22, init_producer_id.handle),
        _api(23, offset_for_leader_epoch.handle),
        _api(24, add_partitions_to_txn.handle),
        _api(25, add_offsets_to_txn.handle),
        _api(26, end_txn.handle),
        _api(27, write_txn_markers.handle),
        _api(28, txn_offset_commit.handle),
        _api(29, describe_acls.handle),
        _api(30, create_acls.handle),
        _api(31, delete_acls.handle),
        _api(32, describe_configs.handle),
        _api(33, alter_configs.handle),
        _api(35, describe_log_dirs.handle),
        _api(36, sasl_authenticate.handle),
        _api(37, create_partitions.handle),
        _api(38, delegation_tokens.handle),
        _api(39, delegation_tokens.handle),
        _api(40, delegation_tokens.handle),
        _api(41, delegation_tokens.handle),
        _api(42, delete_groups.handle),
        _api(44, incremental_alter_configs.handle),
        _api(47, offset_delete.handle),
        _api(48, describe_client_quotas.handle),
        _api(49, alter_client_quotas.handle),
        _api(50, describe_user_scram_credentials.handle),
        _api(51, alter_user_scram_credentials.handle),
        _api(55, describe_quorum.handle),
        _api(43, elect_leaders.handle),
        _api(45, alter_partition_reassignments.handle),
        _api(46, list_partition_reassignments.handle),
        _api(64, unregister_broker.handle),
        _api(60, describe_cluster.handle),
        _api(61, describe_producers.handle),
        _api(65, describe_transactions.handle),
        _api(66, list_transactions.handle),
        _api(67, allocate_producer_ids.handle)._replace(announced=False),
        _api(68, consumer_group_heartbeat.handle),
        _api(69, consumer_group_describe.handle),
        _api(74, list_config_resources.handle),
        _api(75, describe_topic_partitions.handle),
        _api(80, add_raft_voter.handle),
        _api(81, remove_raft_voter.handle),
        _api(82, update_raft_voter.handle)._replace(announced=False),
    )
}

api_versions.announce((api.key, api.oldest, api.newest) for api in SERVED.values() if api.announced)
