"""ApiVersions: what is served, for clients of any version."""

from typing import Any

import pytest

from tidelog.broker.handlers import api_versions
from tidelog.broker.registry import SERVED
from tidelog.errors import ErrorCode
from tidelog.protocol import messages
from unit.broker.fakes import FakeBroker

TOLD = {key: (api.oldest if key else 0, api.newest) for key, api in SERVED.items() if api.announced}


class TestApiVersions:
    def told(self, answer: Any) -> dict[int, tuple[int, int]]:
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    @pytest.mark.parametrize("version", range(5))
    def test_tells_what_is_served(self, broker: FakeBroker, version: int) -> None:
        client = {"client_software_name": "librdkafka", "client_software_version": "2.8.0"}
        answer = broker.call("api_versions", version, **client)
        assert answer.error_code == 0
        assert self.told(answer) == TOLD

    def test_produce_is_shown_from_version_0(self, broker: FakeBroker) -> None:
        """Older librdkafka compresses only then."""
        assert self.told(broker.call("api_versions", 0))[0] == (0, 13)

    @pytest.mark.parametrize(
        ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")]
    )
    def test_clients_without_a_proper_name(self, broker: FakeBroker, name: str, version: str) -> None:
        answer = broker.call("api_versions", 3, client_software_name=name, client_software_version=version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, ())

    def test_a_version_from_the_future_gets_an_answer_anybody_can_read(self) -> None:
        from interop.wire import parse_response

        answer = parse_response(api_versions.downgrade(7)[4:], "api_versions", 0, 7)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert self.told(answer) == TOLD

    @pytest.mark.slow
    def test_every_plain_api_is_one_kio_can_answer(self) -> None:
        for key, api in SERVED.items():
            for version in range(api.oldest, api.newest + 1):
                if api.handler is not None:
                    assert messages.encode(key, version, 1, {})


def test_it_is_encoded_once_for_each_version(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers may ask for it as often as they like."""
    first = [broker.call("api_versions", version) for version in (0, 2)]
    monkeypatch.setattr(messages, "_writer", None)
    assert [broker.call("api_versions", version) for version in (0, 2)] == first
    assert api_versions.downgrade(7)[8:] == api_versions.downgrade(8)[8:]
