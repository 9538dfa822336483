"""Answers and requests of the plain APIs: what handlers say is what kio reads at every version."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.wire import parse_response
from tidelog.broker.registry import SERVED
from tidelog.errors import ErrorCode
from tidelog.protocol import messages
from tidelog.protocol.wire import Malformed
from unit.protocol.sample_requests import PLAIN_REQUESTS, PLAIN_VERSIONS, TOPIC_ID, request_body

every_api = pytest.mark.parametrize(("api_key", "version"), PLAIN_VERSIONS)

_CONFIG = {
    "name": "retention.ms",
    "value": "1000",
    "read_only": False,
    "config_source": 1,
    "is_sensitive": False,
    "synonyms": [{"name": "log.retention.ms", "value": None, "source": 4}],
    "config_type": 5,
    "documentation": "How long.",
}
_PARTITION = {
    "error_code": ErrorCode.NONE,
    "partition_index": 3,
    "leader_id": 1,
    "leader_epoch": 2,
    "replica_nodes": (1, 2),
    "isr_nodes": (1,),
    "offline_replicas": [2],
}
_ALTERED = [
    {
        "error_code": ErrorCode.INVALID_CONFIG,
        "error_message": "no",
        "resource_type": 2,
        "resource_name": "orders",
    }
]

_REPLICA_STATE = {
    "replica_id": 2,
    "replica_directory_id": TOPIC_ID,
    "log_end_offset": 99,
    "last_fetch_timestamp": 1_700_000_000_000,
    "last_caught_up_timestamp": 1_700_000_000_001,
}
_COMMITS = [{"name": "orders", "topic_id": TOPIC_ID, "partitions": [{"partition_index": 1}]}]
_OFFSETS = [
    {
        "name": "orders",
        "topic_id": TOPIC_ID,
        "partitions": [
            {
                "partition_index": 1,
                "committed_offset": 1 << 40,
                "committed_leader_epoch": 4,
                "metadata": "m",
                "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT,
            }
        ],
    }
]

_ASSIGNED = {"topic_partitions": [{"topic_id": TOPIC_ID, "topic_name": "orders", "partitions": [0, 1]}]}

_ADDED = [
    {
        "name": "orders",
        "results_by_partition": [
            {"partition_index": 1, "partition_error_code": ErrorCode.OPERATION_NOT_ATTEMPTED}
        ],
    }
]

_ACL = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
_QUOTA_ENTITY = [
    {"entity_type": "user", "entity_name": None},
    {"entity_type": "client-id", "entity_name": "c"},
]

ANSWERS: dict[int, dict[str, Any]] = {
    17: {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]},
    36: {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "why", "auth_bytes": b"token"},
    29: {
        "error_message": "why",
        "resources": [{"resource_type": 2, "resource_name": "a", "pattern_type": 3, "acls": [_ACL]}],
    },
    30: {"results": [{"error_code": ErrorCode.SECURITY_DISABLED, "error_message": "why"}]},
    31: {
        "filter_results": [
            {
                "error_message": None,
                "matching_acls": [{**_ACL, "resource_type": 3, "resource_name": "g", "pattern_type": 3}],
            }
        ]
    },
    48: {"entries": [{"entity": _QUOTA_ENTITY, "values": [{"key": "request_percentage", "value": 1.5}]}]},
    49: {"entries": [{"error_code": ErrorCode.INVALID_REQUEST, "entity": _QUOTA_ENTITY}]},
    50: {"results": [{"user": "a", "credential_infos": [{"mechanism": 1, "iterations": 4096}]}]},
    51: {"results": [{"user": "a", "error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": "twice"}]},
    2: {
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {"partition_index": 0, "timestamp": 1 << 40, "offset": 1 << 41, "leader_epoch": 3}
                ],
            }
        ]
    },
    3: {
        "brokers": [{"node_id": 1, "host": "höst", "port": 9092, "rack": None}],
        "cluster_id": "c" * 22,
        "controller_id": 1,
        "topics": [
            {"name": "orders", "topic_id": TOPIC_ID, "is_internal": False, "partitions": [_PARTITION]},
            {"name": "none", "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        ],
    },
    18: {"api_keys": [{"api_key": 0, "min_version": 0, "max_version": 13}], "finalized_features_epoch": -1},
    19: {
        "topics": [
            {
                "name": "orders",
                "topic_id": TOPIC_ID,
                "num_partitions": 3,
                "replication_factor": 1,
                "configs": [_CONFIG],
            },
            {"name": "bad", "error_code": ErrorCode.TOPIC_ALREADY_EXISTS, "configs": None},
        ]
    },
    20: {"responses": [{"name": "orders", "topic_id": TOPIC_ID, "error_message": "why"}]},
    21: {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "low_watermark": 1 << 40}]}]},
    10: {
        "error_code": ErrorCode.INVALID_REQUEST,
        "error_message": "m",
        "node_id": -1,
        "host": "",
        "port": -1,
        "coordinators": [{"key": "g", "node_id": -1, "host": "", "port": -1}],
    },
    8: {"topics": _COMMITS},
    9: {
        "topics": _OFFSETS,
        "error_code": ErrorCode.NOT_COORDINATOR,
        "groups": [{"group_id": "g", "topics": _OFFSETS, "error_code": ErrorCode.NOT_COORDINATOR}],
    },
    11: {
        "error_code": ErrorCode.MEMBER_ID_REQUIRED,
        "generation_id": 3,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "m",
        "skip_assignment": True,
        "member_id": "m",
        "members": [{"member_id": "m", "group_instance_id": None, "metadata": b"abc"}],
    },
    12: {"error_code": ErrorCode.REBALANCE_IN_PROGRESS},
    13: {
        "error_code": ErrorCode.NONE,
        "members": [{"member_id": "m", "group_instance_id": "i", "error_code": ErrorCode.FENCED_INSTANCE_ID}],
    },
    14: {
        "error_code": ErrorCode.NONE,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": b"x",
    },
    15: {
        "groups": [
            {
                "error_code": ErrorCode.NONE,
                "group_id": "g",
                "group_state": "Stable",
                "protocol_type": "consumer",
                "protocol_data": "range",
                "members": [
                    {
                        "member_id": "m",
                        "group_instance_id": "i",
                        "client_id": "c",
                        "client_host": "/127.0.0.1",
                        "member_metadata": b"abc",
                        "member_assignment": b"def",
                    }
                ],
            }
        ]
    },
    16: {
        "error_code": ErrorCode.NONE,
        "groups": [
            {"group_id": "g", "protocol_type": "consumer", "group_state": "Empty", "group_type": "classic"}
        ],
    },
    22: {"error_code": ErrorCode.NONE, "producer_id": 7, "producer_epoch": 1},
    24: {
        "error_code": ErrorCode.NONE,
        "results_by_topic_v3_and_below": _ADDED,
        "results_by_transaction": [{"transactional_id": "t", "topic_results": _ADDED}],
    },
    25: {"error_code": ErrorCode.PRODUCER_FENCED},
    26: {"error_code": ErrorCode.NONE, "producer_id": 1 << 40, "producer_epoch": 32_000},
    27: {
        "markers": [
            {
                "producer_id": 1 << 40,
                "topics": [
                    {
                        "name": "orders",
                        "partitions": [
                            {"partition_index": 1, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
                        ],
                    }
                ],
            }
        ]
    },
    65: {
        "transaction_states": [
            {
                "error_code": ErrorCode.NONE,
                "transactional_id": "t",
                "transaction_state": "Ongoing",
                "transaction_timeout": 60_000,
                "transaction_start_time": 1_700_000_000_000,
                "producer_id": 1 << 40,
                "producer_epoch": 7,
                "topics": [{"topic": "orders", "partitions": [0, 1]}],
            }
        ]
    },
    66: {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": ["Sleeping"],
        "transaction_states": [
            {"transactional_id": "t", "producer_id": 7, "transaction_state": "PrepareEpochFence"}
        ],
    },
    28: {"topics": _COMMITS},
    42: {"results": [{"group_id": "g", "error_code": ErrorCode.NON_EMPTY_GROUP}]},
    47: {
        "error_code": ErrorCode.NONE,
        "topics": [
            {
                "name": "orders",
                "partitions": [{"partition_index": 0, "error_code": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}],
            }
        ],
    },
    61: {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "active_producers": []}]}]},
    23: {
        "topics": [
            {"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 1, "end_offset": 9}]},
        ]
    },
    32: {"results": [{"resource_type": 2, "resource_name": "orders", "configs": [_CONFIG]}]},
    33: {"responses": _ALTERED},
    35: {
        "results": [
            {
                "log_dir": "data",
                "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "partition_size": 7}]}],
                "total_bytes": 1 << 40,
                "usable_bytes": 5,
            }
        ]
    },
    37: {"results": [{"name": "orders", "error_code": ErrorCode.INVALID_PARTITIONS, "error_message": "x"}]},
    38: {
        "error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        "principal_type": "User",
        "principal_name": "u",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "r",
        "issue_timestamp": 1_700_000_000_000,
        "expiry_timestamp": 1_700_000_000_001,
        "max_timestamp": 1_700_000_000_002,
        "token_id": "t",
        "hmac": b"x",
    },
    39: {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "expiry_timestamp": 0},
    40: {"error_code": ErrorCode.NONE, "expiry_timestamp": 1_700_000_000_000},
    41: {
        "error_code": ErrorCode.NONE,
        "tokens": [
            {
                "principal_type": "User",
                "principal_name": "u",
                "issue_timestamp": 1,
                "expiry_timestamp": 2,
                "max_timestamp": 3,
                "token_id": "t",
                "hmac": b"x",
                "renewers": [{"principal_type": "User", "principal_name": "r"}],
            }
        ],
    },
    43: {
        "replica_election_results": [
            {
                "topic": "orders",
                "partition_result": [
                    {
                        "partition_id": 1,
                        "error_code": ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                        "error_message": "no",
                    }
                ],
            }
        ],
    },
    44: {"responses": _ALTERED},
    45: {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "responses": [
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": 1,
                        "error_code": ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                        "error_message": "no",
                    }
                ],
            }
        ],
    },
    46: {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": 1,
                        "replicas": (1, 2, 3),
                        "adding_replicas": (3,),
                        "removing_replicas": (1,),
                    }
                ],
            }
        ],
    },
    64: {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "error_message": "x"},
    60: {
        "cluster_id": "c",
        "controller_id": 1,
        "brokers": [{"broker_id": 1, "host": "h", "port": 9, "rack": "r"}],
        "endpoint_type": 1,
    },
    67: {"error_code": ErrorCode.NONE, "producer_id_start": 5000, "producer_id_len": 1000},
    68: {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "member_id": "m",
        "member_epoch": 4,
        "heartbeat_interval": 5000,
        "assignment": {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [0, 1]}]},
    },
    69: {
        "groups": [
            {
                "error_code": ErrorCode.NONE,
                "error_message": None,
                "group_id": "g",
                "group_state": "Stable",
                "group_epoch": 4,
                "assignment_epoch": 3,
                "assignor_name": "uniform",
                "members": [
                    {
                        "member_id": "m",
                        "instance_id": "i",
                        "rack_id": "r",
                        "member_epoch": 4,
                        "client_id": "c",
                        "client_host": "/127.0.0.1",
                        "subscribed_topic_names": ["orders"],
                        "subscribed_topic_regex": None,
                        "assignment": _ASSIGNED,
                        "target_assignment": _ASSIGNED,
                        "member_type": 1,
                    }
                ],
            }
        ]
    },
    74: {"error_code": ErrorCode.NONE, "config_resources": [{"resource_name": "orders", "resource_type": 2}]},
    75: {
        "topics": [{"name": "orders", "topic_id": TOPIC_ID, "partitions": [_PARTITION]}],
        "next_cursor": {"topic_name": "orders", "partition_index": 4},
    },
    55: {
        "error_code": ErrorCode.NONE,
        "topics": [
            {
                "topic_name": "__cluster_metadata",
                "partitions": [
                    {
                        "partition_index": 0,
                        "error_code": ErrorCode.NONE,
                        "leader_id": 1,
                        "leader_epoch": 7,
                        "high_watermark": 100,
                        "current_voters": [_REPLICA_STATE],
                        "observers": [_REPLICA_STATE],
                    }
                ],
            }
        ],
        "nodes": [{"node_id": 1, "listeners": [{"name": "CONTROLLER", "host": "h", "port": 9093}]}],
    },
    80: {"error_code": ErrorCode.DUPLICATE_VOTER, "error_message": "no"},
    81: {"error_code": ErrorCode.VOTER_NOT_FOUND, "error_message": "no"},
    82: {"error_code": ErrorCode.NONE},
}


def encoded(api_key: int, version: int, answer: dict[str, Any]) -> Any:
    frame = messages.encode(api_key, version, 77, answer)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return parse_response(frame[4:], messages.name_of(api_key), version, 77)


def assert_says(entity: Any, expected: Any) -> None:
    """Every given value that this version has is in the entity."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            if hasattr(entity, name):
                assert_says(getattr(entity, name), value)
    elif isinstance(expected, (list, tuple)):
        assert len(entity) == len(expected)
        for found, wanted in zip(entity, expected, strict=True):
            assert_says(found, wanted)
    elif isinstance(entity, timedelta):
        assert messages.milliseconds(entity) == expected
    elif isinstance(entity, datetime):
        assert entity == datetime.fromtimestamp(expected / 1000, UTC)
    else:
        assert entity == expected


class TestAnswers:
    def test_every_api_has_a_case(self) -> None:
        assert {key for key, _ in PLAIN_VERSIONS} == set(ANSWERS) == set(PLAIN_REQUESTS)

    @every_api
    def test_what_a_handler_says_is_what_kio_reads(self, api_key: int, version: int) -> None:
        assert_says(encoded(api_key, version, ANSWERS[api_key]), ANSWERS[api_key])

    @every_api
    def test_nothing_said_is_an_answer_of_defaults(self, api_key: int, version: int) -> None:
        answer = encoded(api_key, version, {})
        assert getattr(answer, "error_code", 0) == 0
        assert getattr(answer, "throttle_time", timedelta(0)) == timedelta(0)

    @every_api
    def test_fields_no_version_has_are_left_out(self, api_key: int, version: int) -> None:
        plain = messages.encode(api_key, version, 1, {})
        assert messages.encode(api_key, version, 1, {"no_such_field": object()}) == plain

    @every_api
    def test_header(self, api_key: int, version: int) -> None:
        """An ApiVersions answer begins like version 0 for ever, so that any client can read it."""
        frame = messages.encode(api_key, version, 0x01020304, {})
        body_at = 9 if messages.is_flexible(api_key, version) and api_key != 18 else 8
        assert frame[4:8] == b"\x01\x02\x03\x04"
        if body_at == 9:
            assert frame[8] == 0
        if api_key == 18:
            assert frame[body_at : body_at + 2] == b"\x00\x00"

    def test_api_versions_default_is_sent_only_where_it_is_no_default(self) -> None:
        assert encoded(18, 4, {"finalized_features_epoch": 5}).finalized_features_epoch == 5

    def test_a_missing_array_is_empty_and_a_missing_nullable_is_null(self) -> None:
        topic = encoded(3, 12, {"topics": [{}]}).topics[0]
        assert (topic.partitions, topic.name, topic.topic_id, topic.is_internal) == ((), None, None, False)
        assert topic.topic_authorized_operations == -(1 << 31)

    def test_a_topic_without_an_id_has_the_zero_id(self) -> None:
        for none in (None, messages.ZERO_UUID):
            frame = messages.encode(3, 12, 1, {"topics": [{"name": "x", "topic_id": none}]})
            assert b"\x02x" + bytes(16) in frame

    @given(offset=st.integers(-(1 << 63), (1 << 63) - 1), code=st.sampled_from(list(ErrorCode)))
    def test_numbers_come_through(self, offset: int, code: ErrorCode) -> None:
        partition = {"partition_index": 0, "error_code": code, "offset": offset}
        answer = encoded(2, 7, {"topics": [{"name": "a", "partitions": [partition]}]})
        found = answer.topics[0].partitions[0]
        assert (found.offset, found.error_code) == (offset, code)


class TestTimes:
    @given(milliseconds=st.integers(0, (1 << 31) - 1))
    def test_durations(self, milliseconds: int) -> None:
        answer = encoded(3, 12, {"throttle_time": milliseconds})
        assert messages.milliseconds(answer.throttle_time) == milliseconds

    @given(milliseconds=st.integers(0, 1 << 42))
    def test_points_in_time(self, milliseconds: int) -> None:
        found = messages._to_datetime(milliseconds)
        assert found is not None
        assert found - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(milliseconds=milliseconds)

    def test_no_time(self) -> None:
        assert messages._to_datetime(-1) is None
        assert messages._to_datetime(None) is None

    def test_no_time_where_null_is_not_allowed(self) -> None:
        states = [{"transactional_id": "t", "transaction_start_time": -1}]
        assert b"\xff" * 8 in messages.encode(65, 0, 77, {"transaction_states": states})


class TestRequests:
    @every_api
    def test_what_kio_writes_is_decoded(self, api_key: int, version: int) -> None:
        values = PLAIN_REQUESTS[api_key]
        frame = memoryview(b"header" + request_body(api_key, version, values))
        request = messages.decode(api_key, version, frame, 6)
        for name, value in values.items():
            if isinstance(value, (str, bool, int)) and hasattr(request, name):
                found = getattr(request, name)
                assert (messages.milliseconds(found) if isinstance(found, timedelta) else found) == value
        for name in ("topics", "resources"):
            if hasattr(request, name):
                assert len(getattr(request, name)) == len(values[name])

    @every_api
    def test_cut_at_every_byte(self, api_key: int, version: int) -> None:
        data = request_body(api_key, version, PLAIN_REQUESTS[api_key])
        for cut in range(len(data)):
            with pytest.raises(Malformed, match="cannot be parsed"):
                messages.decode(api_key, version, memoryview(data[:cut]), 0)

    def test_topics_by_id(self) -> None:
        body = request_body(3, 12, {"topics": [{"name": None, "topic_id": TOPIC_ID}]})
        (topic,) = messages.decode(3, 12, memoryview(body), 0).topics
        assert (topic.name, topic.topic_id) == (None, TOPIC_ID)

    def test_null_and_empty_arrays_differ(self) -> None:
        empty: list[Any] = []
        for topics, expected in [(None, None), (empty, ())]:
            body = request_body(3, 9, {"topics": topics})
            assert messages.decode(3, 9, memoryview(body), 0).topics == expected

    def test_unknown_tagged_fields_are_skipped(self) -> None:
        """A newer client may add some to any version; kio alone would refuse the request."""
        tags = b"\x02\x07\x03abc\x64\x00"
        topic = bytes(16) + b"\x07orders" + tags
        body = b"header" + b"\x03" + topic + topic + b"\x01\x00" + tags
        request = messages.decode(3, 12, memoryview(bytearray(body)), 6)
        assert [topic.name for topic in request.topics] == ["orders", "orders"]
        assert request.allow_auto_topic_creation

    @pytest.mark.parametrize(
        ("api_key", "version"), [api for api in PLAIN_VERSIONS if messages.is_flexible(*api)]
    )
    def test_unknown_tagged_fields_at_the_end_change_nothing(self, api_key: int, version: int) -> None:
        body = request_body(api_key, version, PLAIN_REQUESTS[api_key])
        more = body[:-1] + b"\x01\xff\x7f\x02??"
        plain = messages.decode(api_key, version, memoryview(body), 0)
        assert messages.decode(api_key, version, memoryview(more), 0) == plain

    def test_known_tagged_fields_stay(self) -> None:
        """Of those behind unknown ones, too. Fetch stands in: no plain API has known ones yet."""
        state = {"replica_id": 7, "replica_epoch": 8}
        body = request_body(1, 17, {"replica_state": state})
        known = body[-16:]
        assert known[:3] == b"\x01\x01\x0d"
        more = body[:-16] + b"\x03" + b"\x40\x01?" + known[1:] + b"\x41\x00"
        request = messages.decode(1, 17, memoryview(more), 0)
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 8)


class TestVersions:
    @pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: messages.name_of(api.key))
    def test_nothing_is_served_that_kio_does_not_know(self, api: Any) -> None:
        oldest, newest = messages.known_versions(api.key)
        assert oldest <= api.oldest <= api.newest <= newest

    def test_names(self) -> None:
        assert messages.name_of(0) == "produce"
        assert messages.name_of(18) == "api_versions"
        assert messages.name_of(12345) == "unknown api 12345"

    @pytest.mark.parametrize(
        ("api_key", "from_version"), [(0, 9), (1, 12), (2, 6), (3, 9), (18, 3), (19, 5), (20, 4), (75, 0)]
    )
    def test_flexible_versions(self, api_key: int, from_version: int) -> None:
        oldest, newest = messages.known_versions(api_key)
        for version in range(oldest, newest + 1):
            assert messages.is_flexible(api_key, version) == (version >= from_version)


def test_uuid_of_zeros_is_none() -> None:
    assert messages._to_uuid(UUID(int=0)) is None
    assert messages._to_uuid(TOPIC_ID) == TOPIC_ID
