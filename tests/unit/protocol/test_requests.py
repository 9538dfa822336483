"""Requests of brokers to brokers: what is asked arrives, and what is answered comes back."""

from uuid import UUID

import pytest

from interop.wire import API_KEYS, request_bytes
from tidelog.errors import ErrorCode
from tidelog.protocol import messages, requests
from tidelog.protocol.kio_import import api_key_map
from tidelog.protocol.wire import Malformed
from unit.protocol.sample_requests import PLAIN_REQUESTS


@pytest.mark.parametrize("api_key", PLAIN_REQUESTS, ids=messages.name_of)
def test_every_request_is_what_kio_writes(api_key: int) -> None:
    body = PLAIN_REQUESTS[api_key]
    frame = requests.encode_request(api_key, 7, "me", body)
    expected = request_bytes(api_key_map[api_key], requests.newest(api_key), 7, "me", body)
    assert frame == len(expected).to_bytes(4, "big") + expected


@pytest.mark.parametrize(
    "api", ["vote", "broker_heartbeat", "create_topics", "api_versions", "write_txn_markers"]
)
def test_answers_come_back(api: str) -> None:
    api_key = API_KEYS[api]
    fields = {"error_code": ErrorCode.NOT_CONTROLLER, "is_fenced": True, "should_shut_down": True}
    frame = messages.encode(api_key, requests.newest(api_key), 9, fields)
    answer = requests.decode_response(api_key, memoryview(frame)[4:])
    assert answer == requests.response_of(api_key, fields)


def test_a_local_request_is_the_one_that_would_arrive() -> None:
    body = {"broker_id": 3, "broker_epoch": 4, "current_metadata_offset": 5, "want_shut_down": True}
    frame = memoryview(requests.encode_request(63, 1, "", body))
    assert messages.decode(63, requests.newest(63), frame, 15) == requests.request_of(63, body)


def test_unknown_tagged_fields_of_an_answer_are_skipped() -> None:
    frame = messages.encode(67, 0, 9, {"producer_id_start": 5, "producer_id_len": 6})
    more = memoryview(frame[4:-1] + b"\x01\x63\x02??")
    answer = requests.decode_response(67, more)
    assert (answer.producer_id_start, answer.producer_id_len) == (5, 6)


def test_answers_that_are_none() -> None:
    answer = {"topics": [{"topic_name": "t", "partitions": [{"leader_id": 3, "vote_granted": True}]}]}
    frame = memoryview(messages.encode(52, 2, 9, answer))[4:]
    for size in range(4, len(frame) - 1):
        with pytest.raises(Malformed):
            requests.decode_response(52, frame[:size])
    with pytest.raises(Malformed):
        requests.decode_response(56, memoryview(UUID(int=1).bytes))
