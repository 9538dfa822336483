"""SaslHandshake and SaslAuthenticate by hand, against kio and against bytes that are neither."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.wire import parse_response, request_bytes
from tidelog.errors import ErrorCode
from tidelog.protocol import sasl
from tidelog.protocol.wire import Malformed, skip_tags

CLIENT = "client"
BODY = 10 + len(CLIENT)  # where a request's body, or the tags of its header, begin


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake(version: int) -> None:
    frame = memoryview(request_bytes("sasl_handshake", version, 5, CLIENT, {"mechanism": "SCRAM-SHA-256"}))
    assert sasl.decode_handshake(frame, BODY) == "SCRAM-SHA-256"
    encoded = sasl.encode_handshake_response(5, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("A", "BC"))
    answer = parse_response(encoded[4:], "sasl_handshake", version, 5)
    assert (answer.error_code, answer.mechanisms) == (33, ("A", "BC"))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("token", [b"", b"x", b"t" * 300])
def test_a_token(version: int, token: bytes) -> None:
    frame = memoryview(request_bytes("sasl_authenticate", version, 5, CLIENT, {"auth_bytes": token}))
    position = skip_tags(frame, BODY) if version >= sasl.FLEXIBLE_FROM else BODY
    assert sasl.decode_authenticate(frame, position, version) == token
    for told in (
        sasl.Authenticated(ErrorCode.NONE, "", token, 7),
        sasl.Authenticated(ErrorCode.SASL_AUTHENTICATION_FAILED, "no", b""),
    ):
        encoded = sasl.encode_authenticate_response(5, version, told)
        answer = parse_response(encoded[4:], "sasl_authenticate", version, 5)
        assert (answer.error_code, answer.auth_bytes) == (told.error, told.token)
        assert answer.error_message == (told.reason or None)
        if version == 1:
            assert sasl.decode_authenticate_response(memoryview(encoded)[4:]) == told
        if version:
            assert answer.session_lifetime.total_seconds() * 1000 == told.session_lifetime_ms


def test_the_requests_of_nodes() -> None:
    frame = sasl.encode_handshake(5, CLIENT, "M")
    assert frame[4:] == request_bytes("sasl_handshake", 1, 5, CLIENT, {"mechanism": "M"})
    frame = sasl.encode_authenticate(6, CLIENT, b"token")
    assert frame[4:] == request_bytes("sasl_authenticate", 1, 6, CLIENT, {"auth_bytes": b"token"})


@given(st.binary(max_size=40), st.sampled_from([0, 1, 2]))
def test_any_bytes_are_a_request_or_malformed(data: bytes, version: int) -> None:
    for decode in (
        lambda: sasl.decode_handshake(memoryview(data), 0),
        lambda: sasl.decode_authenticate(memoryview(data), 0, version),
        lambda: sasl.decode_handshake_response(memoryview(data)),
        lambda: sasl.decode_authenticate_response(memoryview(data)),
    ):
        with contextlib.suppress(Malformed):
            decode()
