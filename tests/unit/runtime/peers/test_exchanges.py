"""What a node imports before other nodes ask it."""

import pytest

from tidelog.protocol import fetch, follower_fetch, messages, requests
from tidelog.runtime.peers.exchanges import BY_API, load_exchanges


def test_nothing_is_imported_on_the_loop_for_the_first_requests_of_other_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The schema of Fetch alone took 5 to 9 ms."""

    def refuse(api_key: int, version: int) -> None:
        raise AssertionError(f"api {api_key} v{version} is imported now")

    messages.is_flexible.cache_clear()
    load_exchanges()
    monkeypatch.setattr(messages, "load_request_schema", refuse)
    messages.is_flexible(fetch.API_KEY, follower_fetch.VERSION)
    for api_key in BY_API:
        assert messages.is_loaded(api_key, requests.newest(api_key))
