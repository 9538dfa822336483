"""Envelopes: what kio's schema says, plus how far the controller's metadata was."""

from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from interop.wire import request_bytes
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, messages
from tidelog.protocol.extents import tame
from tidelog.protocol.wire import Malformed

DATA = b"header and body" * 20


def test_requests_are_what_kio_reads() -> None:
    frame = envelope.encode_request(7, "me", memoryview(DATA), ("User", "alice"), "127.0.0.1:5")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    schema = load_request_schema(58, 0)
    header, size = entity_reader(schema.__header_schema__)(frame, 4)
    assert (header.request_api_key, header.correlation_id, header.client_id) == (58, 7, "me")
    reader: Any = entity_reader(schema)
    request, rest = reader(frame, 4 + size)
    assert (request.request_data, request.client_host_address) == (DATA, b"127.0.0.1:5")
    assert request.request_principal == b"\0\0\5User\6alice\0\0"
    assert 4 + size + rest == len(frame)
    found = envelope.decode_request(memoryview(frame), 4 + size)
    assert found == (memoryview(DATA), ("User", "alice"), "127.0.0.1:5")


@pytest.mark.parametrize("principal", [b"\0\1\5User\2a\0\0", b"\0\0\0\2a\0\0", b"\0\0\5User", b"\0"])
def test_principals_that_cannot_be_read(principal: bytes) -> None:
    fields = {"request_data": DATA, "request_principal": principal, "client_host_address": b"h"}
    body = request_bytes("envelope", 0, 7, "me", fields)
    with pytest.raises(Malformed):
        envelope.decode_request(memoryview(body), 13)


def test_a_node_of_an_older_version_names_no_principal() -> None:
    fields = {"request_data": DATA, "request_principal": None, "client_host_address": b"h"}
    found = envelope.decode_request(memoryview(request_bytes("envelope", 0, 7, "me", fields)), 13)
    assert found.principal is None


@pytest.mark.parametrize("data", [None, b"", DATA])
def test_answers(data: bytes | None) -> None:
    frame = memoryview(envelope.encode_response(9, ErrorCode.NOT_CONTROLLER, data, 1 << 40))
    assert envelope.decode_response(frame[4:]) == (ErrorCode.NOT_CONTROLLER, data, 1 << 40)
    schema = load_response_schema(58, 0)
    reader: Any = entity_reader(schema)
    answer, _ = reader(*tame(schema, frame, 9))
    assert (answer.response_data, answer.error_code) == (data, ErrorCode.NOT_CONTROLLER)


def test_an_answer_without_our_field() -> None:
    frame = messages.encode(58, 0, 9, {"response_data": DATA, "error_code": ErrorCode.NONE})
    answer = envelope.decode_response(memoryview(frame)[4:])
    assert answer == envelope.EnvelopeResponse(ErrorCode.NONE, memoryview(DATA), -1)


def test_cut_short_anywhere() -> None:
    request = envelope.encode_request(7, "me", memoryview(DATA), ("User", "a"), "")
    for size in range(17, len(request)):
        with pytest.raises(Malformed):
            envelope.decode_request(memoryview(request)[:size], 17)
    answer = envelope.encode_response(7, ErrorCode.NONE, DATA, 5)[4:]
    for size in range(5, len(answer)):
        with pytest.raises(Malformed):
            envelope.decode_response(memoryview(answer)[:size])
