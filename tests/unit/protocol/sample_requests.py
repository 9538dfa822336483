"""One full request of every API that kio decodes, as plain values, and its bytes at any version."""

import io
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_writer

from interop.wire import build
from tidelog.broker.registry import SERVED
from unit.versions import tried

TOPIC_ID = UUID("7e5e0000-0000-4000-8000-0000000000ff")

_CONFIGS = [{"name": "retention.ms", "value": "1000", "config_operation": 0}, {"name": "x", "value": None}]
_RESOURCES = [
    {
        "resource_type": 2,
        "resource_name": "orders",
        "configs": _CONFIGS,
        "configuration_keys": ["a", "b"],
    }
]

_COMMITTED = [
    {
        "name": "orders",
        "topic_id": TOPIC_ID,
        "partitions": [
            {
                "partition_index": 0,
                "committed_offset": 7,
                "committed_leader_epoch": 2,
                "committed_metadata": "where I was",
            },
            {"partition_index": 1, "committed_offset": 8, "committed_metadata": None},
        ],
        "partition_indexes": [0, 1],
    }
]
_ACL_FILTER = {
    "resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3,
    "principal_filter": None, "host_filter": "*", "operation": 1, "permission_type": 1,
}  # fmt: skip
_MEMBER = {"member_id": "m", "group_instance_id": "i"}

PLAIN_REQUESTS: dict[int, dict[str, Any]] = {
    2: {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [
            {
                "name": "orders",
                "partitions": [{"partition_index": 3, "current_leader_epoch": 4, "timestamp": -2}],
            }
        ],
    },
    3: {"topics": [{"name": "orders"}, {"name": "söme ünïcode"}], "allow_auto_topic_creation": True},
    17: {"mechanism": "SCRAM-SHA-256"},
    36: {"auth_bytes": b"n,,n=alice,r=x"},
    22: {"transactional_id": "t", "producer_id": 5, "producer_epoch": 1},
    61: {"topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
    29: _ACL_FILTER,
    30: {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": "orders",
                "resource_pattern_type": 3,
                "principal": "User:alice",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    },
    31: {"filters": [_ACL_FILTER]},
    48: {"components": [{"entity_type": "user", "match_type": 0, "match": "alice"}], "strict": True},
    49: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "alice"}],
                "ops": [{"key": "request_percentage", "value": 1.5, "remove": False}],
            }
        ],
        "validate_only": False,
    },
    50: {"users": [{"name": "alice"}]},
    51: {
        "deletions": [{"name": "bob", "mechanism": 1}],
        "upsertions": [
            {
                "name": "alice",
                "mechanism": 2,
                "iterations": 4096,
                "salt": b"s",
                "salted_password": b"p",
            }
        ],
    },
    8: {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        **_MEMBER,
        "retention_time": 1000,
        "topics": _COMMITTED,
    },
    9: {
        "group_id": "g",
        "topics": _COMMITTED,
        "groups": [{"group_id": "g", "member_id": "m", "member_epoch": 1, "topics": _COMMITTED}],
        "require_stable": True,
    },
    10: {"key": "g", "key_type": 0, "coordinator_keys": ["g", "h"]},
    11: {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        **_MEMBER,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"abc"}],
        "reason": "why not",
    },
    12: {"group_id": "g", "generation_id": 3, **_MEMBER},
    13: {"group_id": "g", "member_id": "m", "members": [{**_MEMBER, "reason": "done"}]},
    14: {
        "group_id": "g",
        "generation_id": 3,
        **_MEMBER,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "m", "assignment": b"abc"}],
    },
    15: {"groups": ["g", "h"], "include_authorized_operations": True},
    38: {
        "owner_principal_type": "User",
        "owner_principal_name": "u",
        "renewers": [{"principal_type": "User", "principal_name": "r"}],
        "max_lifetime": 1000,
    },
    39: {"hmac": b"x", "renew_period": 1000},
    40: {"hmac": b"x", "expiry_time_period": 1000},
    41: {"owners": [{"principal_type": "User", "principal_name": "u"}]},
    16: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    28: {
        "transactional_id": "t",
        "group_id": "g",
        "producer_id": 5,
        "producer_epoch": 1,
        "generation_id": 3,
        **_MEMBER,
        "topics": _COMMITTED,
    },
    24: {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": 5,
        "v3_and_below_producer_epoch": 1,
        "v3_and_below_topics": [{"name": "orders", "partitions": [0, 1]}],
        "transactions": [
            {
                "transactional_id": "t",
                "producer_id": 5,
                "producer_epoch": 1,
                "verify_only": True,
                "topics": [{"name": "orders", "partitions": [0, 1]}],
            }
        ],
    },
    25: {"transactional_id": "t", "producer_id": 5, "producer_epoch": 1, "group_id": "g"},
    26: {"transactional_id": "t", "producer_id": 5, "producer_epoch": 1, "committed": True},
    27: {
        "markers": [
            {
                "producer_id": 5,
                "producer_epoch": 1,
                "transaction_result": True,
                "topics": [{"name": "orders", "partition_indexes": [0, 1]}],
                "coordinator_epoch": 3,
                "transaction_version": 2,
            }
        ]
    },
    65: {"transactional_ids": ["t", "u"]},
    66: {
        "state_filters": ["Ongoing"],
        "producer_id_filters": [5],
        "duration_filter": 1000,
        "transactional_id_pattern": "t.*",
    },
    42: {"groups_names": ["g", "h"]},
    47: {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
    18: {"client_software_name": "a-client", "client_software_version": "1.0"},
    19: {
        "topics": [
            {"name": "plain", "num_partitions": 3, "replication_factor": 1, "configs": _CONFIGS},
            {
                "name": "placed",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}],
            },
        ],
        "timeout": 30_000,
        "validate_only": True,
    },
    20: {"topics": [{"name": "orders"}], "topic_names": ["orders", "bills"], "timeout": 1},
    21: {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 5}]}], "timeout": 1},
    23: {
        "replica_id": -1,
        "topics": [
            {
                "topic": "orders",
                "partitions": [{"partition": 0, "current_leader_epoch": 1, "leader_epoch": 0}],
            }
        ],
    },
    32: {"resources": _RESOURCES, "include_synonyms": True, "include_documentation": True},
    33: {"resources": _RESOURCES, "validate_only": False},
    35: {"topics": [{"topic": "orders", "partitions": [0, 1, 2]}]},
    37: {
        "topics": [{"name": "orders", "count": 4, "assignments": [{"broker_ids": [1]}]}],
        "timeout": 1,
        "validate_only": False,
    },
    43: {"election_type": 1, "topic_partitions": [{"topic": "orders", "partitions": [0, 1]}], "timeout": 1},
    44: {"resources": _RESOURCES, "validate_only": True},
    45: {
        "timeout": 1,
        "allow_replication_factor_change": True,
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {"partition_index": 0, "replicas": [1, 2]},
                    {"partition_index": 1, "replicas": None},
                ],
            }
        ],
    },
    46: {"timeout": 1, "topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
    55: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    60: {"endpoint_type": 1},
    64: {"broker_id": 3},
    67: {"broker_id": 1, "broker_epoch": 2},
    68: {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 4,
        "instance_id": "i",
        "rack_id": "r",
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": "orders-.*",
        "server_assignor": "uniform",
        "topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [0, 1]}],
    },
    69: {"group_ids": ["g", "h"], "include_authorized_operations": True},
    74: {"resource_types": [2, 32]},
    75: {
        "topics": [{"name": "orders"}],
        "response_partition_limit": 10,
        "cursor": {"topic_name": "orders", "partition_index": 2},
    },
    80: {
        "cluster_id": "c",
        "timeout": 1000,
        "voter_id": 4,
        "voter_directory_id": TOPIC_ID,
        "listeners": [{"name": "CONTROLLER", "host": "h", "port": 9093}],
        "ack_when_committed": True,
    },
    81: {"cluster_id": "c", "voter_id": 4, "voter_directory_id": TOPIC_ID},
    82: {
        "cluster_id": "c",
        "current_leader_epoch": 3,
        "voter_id": 4,
        "voter_directory_id": TOPIC_ID,
        "listeners": [{"name": "CONTROLLER", "host": "h", "port": 9093}],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    },
}

PLAIN_VERSIONS = tried(
    {key: range(api.oldest, api.newest + 1) for key, api in SERVED.items() if api.handler is not None}
)


def request_body(api_key: int, version: int, values: dict[str, Any]) -> bytes:
    """The request without its header, as kio writes it."""
    schema = load_request_schema(api_key, version)
    out = io.BytesIO()
    entity_writer(schema)(out, build(schema, values))
    return out.getvalue()
