"""Every version of every API the broker serves is answered, and the answer parses to its last byte."""

import struct

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

from . import calls
from .records import batch, values
from .requests import ALL, Request
from .wire import API_KEYS, Wire, parse_response, request_bytes

pytestmark = pytest.mark.interop

# What this broker has to serve; other APIs it may serve are tested where they belong.
NEWEST_TO_SERVE = {
    "produce": 13,
    "fetch": 17,
    "list_offsets": 10,
    "metadata": 13,
    "api_versions": 4,
    "create_topics": 7,
    "delete_topics": 6,
    "delete_records": 2,
    "init_producer_id": 5,
    "offset_for_leader_epoch": 4,
    "describe_configs": 4,
    "alter_configs": 2,
    "describe_log_dirs": 4,
    "create_partitions": 3,
    "incremental_alter_configs": 1,
    "describe_cluster": 2,
    "describe_producers": 0,
    "describe_topic_partitions": 0,
}


def test_everything_promised_is_served(wire: Wire) -> None:
    served = wire.versions()
    missing = {api for api, newest in NEWEST_TO_SERVE.items() if newest not in served.get(api, ())}
    assert not missing


@pytest.mark.parametrize("api", ALL)
def test_every_version_answers(api: str, wire: Wire, topic: str) -> None:
    versions = [version for version in wire.versions()[api] if version in schema_name_map[api]]
    assert versions
    for version in versions:
        request: Request = ALL[api]
        if version < request.first_version:
            continue  # advertised for old clients' sake only, see test_old_produce_versions_are_advertised
        calls.produce(wire, topic, bytes(batch(b"x")))
        answer = wire.call(api, version, **request.values(wire, topic, version))
        request.check(answer, version)


def test_produce_and_fetch_agree_at_every_version(wire: Wire, topic: str) -> None:
    served = wire.versions()
    sent = []
    for version in served["produce"]:
        if version < 3 or version not in schema_name_map["produce"]:
            continue
        value = f"produced at {version}".encode()
        sent.append(value)
        answer = calls.produce(wire, topic, bytes(batch(value)), version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, len(sent) - 1), version
    for version in served["fetch"]:
        if version in schema_name_map["fetch"]:
            assert values(calls.fetch(wire, topic, 0, version=version).records) == sent, version


def test_old_produce_versions_are_advertised(wire: Wire) -> None:
    # librdkafka before 2.11 takes "Produce starts at 3" for "knows no compression and no timestamps".
    assert 0 in wire.versions()["produce"]


class TestApiVersions:
    def test_metrics_of_clients_are_not_asked_for(self, wire: Wire) -> None:
        """A client sends them only to brokers that announce both requests. Kafka does with a plugin only."""
        assert not {"get_telemetry_subscriptions", "push_telemetry"} & set(wire.versions())

    def test_every_version_says_the_same(self, wire: Wire) -> None:
        expected = wire.versions()
        for version in expected["api_versions"]:
            answer = wire.call("api_versions", version, client_software_name="t", client_software_version="1")
            said = {api_key_map[a.api_key]: range(a.min_version, a.max_version + 1) for a in answer.api_keys}
            assert said == expected, version

    @pytest.mark.parametrize("version", [5, 99, 32_767])
    def test_a_version_from_the_future_is_answered_as_version_0(self, wire: Wire, version: int) -> None:
        """The one request a client sends before it knows what the broker can: the answer must tell it."""
        newest = request_bytes("api_versions", 4, 77, "future", {"client_software_name": "x"})
        frame = struct.pack(">hh", API_KEYS["api_versions"], version) + newest[4:]
        wire.send_frame(frame)
        answer = parse_response(wire.receive_frame(), "api_versions", 0, 77)
        assert answer.error_code is ErrorCode.unsupported_version
        (own,) = [api for api in answer.api_keys if api.api_key == API_KEYS["api_versions"]]
        assert own.max_version >= 3
        assert wire.versions()  # and the connection goes on at a version both know

    def test_a_client_must_say_who_it_is(self, wire: Wire) -> None:
        request = {"client_software_name": "not allowed: spaces", "client_software_version": "1"}
        answer = wire.call("api_versions", 3, **request)
        assert answer.error_code is ErrorCode.invalid_request


class TestUnsupported:
    """Anything but ApiVersions at an unknown version cannot be answered in a form the client can read."""

    @pytest.mark.parametrize("api", sorted(NEWEST_TO_SERVE.keys() - {"api_versions"}))
    def test_unknown_version(self, api: str, wire: Wire, bootstrap: str) -> None:
        version = wire.versions()[api].stop + 50
        newest = max(schema_name_map[api])
        payload = request_bytes(api, newest, 5, "future", {})
        wire.send_frame(struct.pack(">hh", API_KEYS[api], version) + payload[4:])
        assert wire.wait_until_closed() == b""
        with Wire(bootstrap) as other:
            assert other.versions()

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_old_produce_is_advertised_but_not_served(self, wire: Wire, version: int) -> None:
        wire.send_frame(struct.pack(">hhih", 0, version, 1, -1) + struct.pack(">hii", 1, 1000, 0))
        assert wire.wait_until_closed() == b""

    @pytest.mark.parametrize("api_key", [-1, 4, 200, 9999, 32_767])
    def test_unknown_api(self, wire: Wire, bootstrap: str, api_key: int) -> None:
        wire.send_frame(struct.pack(">hhih", api_key, 0, 1, -1))
        assert wire.wait_until_closed() == b""
        with Wire(bootstrap) as other:
            assert other.versions()


def test_unknown_tagged_fields_are_ignored(wire: Wire) -> None:
    """A newer client may add tagged fields to any flexible request; an older broker must not mind."""
    schema = load_request_schema(API_KEYS["metadata"], 12)
    assert schema.__flexible__
    payload = request_bytes("metadata", 12, 9, "new", {"topics": []})
    assert payload.endswith(b"\x00")  # no tagged fields
    wire.send_frame(payload[:-1] + b"\x01" + b"\x63" + b"\x03" + b"abc")
    answer = parse_response(wire.receive_frame(), "metadata", 12, 9)
    assert answer.brokers


def test_a_client_without_an_id(bootstrap: str) -> None:
    for client_id in (None, "", "ключ"):
        with Wire(bootstrap, client_id=client_id) as wire:
            assert wire.versions()
            assert wire.call("metadata", 12, topics=[]).brokers
