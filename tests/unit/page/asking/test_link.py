"""Questions in the newest version that both sides know."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tidelog.client.apis import Api
from tidelog.page.asking.link import Link, NotServed
from tidelog.protocol.messages import encode

HEAD = struct.Struct(">ihhi")  # size, api, version, correlation id
CLUSTER = {"cluster_id": "older", "controller_id": 1, "brokers": []}


@contextmanager
def broker(ranges: dict[int, tuple[int, int]]) -> Iterator[tuple[tuple[str, int], list[tuple[int, int]]]]:
    """Serves these versions and describes its cluster; its address, and the requests that it got."""
    requests: list[tuple[int, int]] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            take = connection.makefile("rb").read
            while head := take(HEAD.size):
                size, api, version, correlation_id = HEAD.unpack(head)
                take(size - HEAD.size + 4)
                requests.append((api, version))
                connection.sendall(answers[api](version, correlation_id))

    answers: dict[int, Callable[[int, int], bytes]] = {
        Api.API_VERSIONS: lambda _, correlation_id: _versions(ranges, correlation_id),
        Api.DESCRIBE_CLUSTER: lambda version, correlation_id: encode(
            Api.DESCRIBE_CLUSTER, version, correlation_id, CLUSTER
        ),
    }
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname(), requests
    finally:
        thread.join(10)
        listener.close()


def _versions(ranges: dict[int, tuple[int, int]], correlation_id: int) -> bytes:
    body = struct.pack(">hi", 0, len(ranges))
    body += b"".join(struct.pack(">hhh", api, *each) for api, each in ranges.items())
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


@pytest.mark.parametrize(("served", "chosen"), [((0, 0), 0), ((0, 1), 1), ((1, 99), 2)])
def test_the_newest_version_that_both_know(served: tuple[int, int], chosen: int) -> None:
    with broker({Api.API_VERSIONS: (0, 3), Api.DESCRIBE_CLUSTER: served}) as (address, requests):
        with Link(address, 5) as link:
            found = link.ask(Api.DESCRIBE_CLUSTER, {"include_fenced_brokers": True})
        assert found.cluster_id == "older"
    assert requests == [(Api.API_VERSIONS, 0), (Api.DESCRIBE_CLUSTER, chosen)]


def test_a_request_that_the_broker_does_not_have() -> None:
    with broker({Api.API_VERSIONS: (0, 3)}) as (address, _), Link(address, 5) as link:
        with pytest.raises(NotServed):
            link.ask(Api.DESCRIBE_QUORUM, {"topics": []})
        assert not link.serves(Api.DESCRIBE_CLUSTER, 0)
