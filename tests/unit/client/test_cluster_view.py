"""Asking a port whether a broker is there."""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

import pytest

from tidelog.client.cluster_view import (
    ClusterView,
    PartitionView,
    active_controller,
    is_ready,
    responds,
    view_cluster,
    voter_directories,
)
from tidelog.client.ports import first_open, is_free
from tidelog.client.settings import parse_bootstrap


@contextmanager
def server_that_answers(*answers: bytes) -> Iterator[int]:
    """A server that reads each request whole and sends the next answer, then closes. The correlation id in an
    answer is how far it is from the one asked for.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for answer in answers:
                    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    request = connection.recv(size, socket.MSG_WAITALL)
                    connection.sendall(_for_request(answer, request))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(10)


def _for_request(answer: bytes, request: bytes) -> bytes:
    if len(answer) < 8:
        return answer
    (asked,), (away,) = struct.unpack_from(">i", request, 4), struct.unpack_from(">i", answer, 4)
    return answer[:4] + struct.pack(">i", (asked + away) & 0x7FFFFFFF) + answer[8:]


def framed(body: bytes, correlation_id: int = 0) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


API_VERSIONS = framed(struct.pack(">hi", 0, 0))


def described(controller: int, brokers: int = 1, error: int = 0) -> bytes:
    """A DescribeCluster answer, with a long host name in it."""
    host = b"h" * 200
    listed = b"".join(
        struct.pack(">iBB200sibb", n, 0xC9, 0x01, host, 9091 + n, 0, 0) for n in range(1, brokers + 1)
    )
    head = struct.pack(">bihbb2si", 0, 0, error, 0, 3, b"id", controller)
    return framed(head + bytes([brokers + 1]) + listed + bytes(5))


def metadata(topics: bytes) -> bytes:
    broker = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    return framed(struct.pack(">ii", 0, 1) + broker + struct.pack(">h2si", 2, b"id", 1) + topics)


def test_a_broker_with_a_controller_is_ready() -> None:
    with server_that_answers(API_VERSIONS, described(controller=1)) as port:
        assert is_ready("127.0.0.1", port)


@pytest.mark.parametrize(("known", "ready"), [(2, False), (3, True), (4, True)])
def test_one_of_three_is_ready_when_it_knows_all_of_them(known: int, ready: bool) -> None:
    with server_that_answers(API_VERSIONS, described(controller=1, brokers=known)) as port:
        assert is_ready("127.0.0.1", port, brokers=3) is ready


def test_a_look_shows_brokers_leaders_and_members_in_order_of_partitions() -> None:
    def partition(index: int, leader: int, epoch: int, *members: int) -> bytes:
        in_sync = struct.pack(f">i{len(members)}i", len(members), *members)
        return (
            struct.pack(">hiii", 0, index, leader, epoch) + struct.pack(">i2i", 2, 1, 2) + in_sync + bytes(4)
        )

    there = struct.pack(">hh5sbi", 0, 5, b"there", 0, 2) + partition(1, 2, 7, 2) + partition(0, 1, 4, 1, 2)
    missing = struct.pack(">hh4sbi", 3, 4, b"gone", 0, 0)
    topics = struct.pack(">i", 2) + there + missing
    with server_that_answers(API_VERSIONS, described(2, 2), metadata(topics)) as port:
        assert view_cluster("127.0.0.1", port, "there", "gone") == ClusterView(
            {1: ("h" * 200, 9092), 2: ("h" * 200, 9093)},
            2,
            {"there": [PartitionView(1, 4, (1, 2), (1, 2)), PartitionView(2, 7, (1, 2), (2,))]},
        )


def quorum(error: int, partition_error: int, leader: int) -> bytes:
    name = b"__cluster_metadata"
    head = struct.pack(">bhbb", 0, error, 2, len(name) + 1) + name
    return framed(head + struct.pack(">bihi", 2, 0, partition_error, leader) + bytes(20))


@pytest.mark.parametrize(
    ("answer", "leader"), [(quorum(0, 0, 3), 3), (quorum(0, 6, 3), -1), (quorum(41, 0, 3), -1)]
)
def test_the_active_controller_is_who_leads_the_quorum(answer: bytes, leader: int) -> None:
    with server_that_answers(answer) as port:
        assert active_controller("127.0.0.1", port) == leader


def test_whoever_answers_something_else_is_no_broker() -> None:
    with server_that_answers(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert not responds("127.0.0.1", port)


@pytest.mark.parametrize(
    "answers",
    [
        (API_VERSIONS, described(controller=-1)),
        (API_VERSIONS, described(controller=1, error=31)),
        (framed(struct.pack(">hi", 35, 0)),),
        (),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (framed(b"\x00\x00", correlation_id=2),),
        (struct.pack(">ii", -1, 1),),
        (API_VERSIONS, framed(b"\x00" * 6)),
        (API_VERSIONS, framed(described(controller=1)[8:-20])),
    ],
    ids=["no controller", "refused", "error", "closed", "http", "other request", "length", "short", "torn"],
)
def test_anything_else_is_not_ready(answers: tuple[bytes, ...]) -> None:
    with server_that_answers(*answers) as port:
        assert not is_ready("127.0.0.1", port)


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        assert not is_free(*address)
        assert first_open([("127.0.0.1", 1), address], 5) is None
    assert is_free(*address)
    assert isinstance(first_open([address], 5), ConnectionRefusedError)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9092", "host:0", "host:65536", "a:1,b"])
def test_addresses_need_host_and_port(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_bootstrap(text)


def test_several_addresses_and_ipv6() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == (("a", 1), ("::1", 2))


DISKS = {1: UUID(int=11), 2: UUID(int=2 << 64)}


def quorum_of(voters: Mapping[int, UUID], error: int = 0) -> bytes:
    """A DescribeQuorum answer of version 2, with an observer."""

    def states(found: Mapping[int, UUID]) -> bytes:
        rows = b"".join(
            struct.pack(">i16sqqqb", number, disk.bytes, 7, 8, 9, 0) for number, disk in found.items()
        )
        return bytes([len(found) + 1]) + rows

    partition = struct.pack(">ihbiiq", 0, error, 0, 1, 3, 7) + states(voters) + states({9: UUID(int=9)})
    name = b"__cluster_metadata"
    topics = bytes([2, len(name) + 1]) + name + b"\x02" + partition + bytes(2)
    return framed(bytes(1) + bytes(3) + topics + bytes(2))


def test_voters_have_the_ids_of_their_disks() -> None:
    with server_that_answers(quorum_of(DISKS)) as port:
        assert voter_directories("127.0.0.1", port) == DISKS


def test_a_broker_that_knows_of_no_quorum_knows_no_voters() -> None:
    with server_that_answers(quorum_of(DISKS, error=3)) as port:
        assert voter_directories("127.0.0.1", port) == {}
