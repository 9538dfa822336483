"""Whatever a stranger sends, of every API at every version: an answer, or the end of that connection, with
one line in the log. Never a dead broker, a traceback, or others that are no longer served.
"""

import struct
from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from tidelog.broker.registry import SERVED
from tidelog.protocol import requests
from tidelog.runtime.peers import names
from tidelog.runtime.peers.exchanges import BY_API
from tidelog.testing import Broker

from . import calls
from .fuzzing import Stranger
from .records import batch
from .wire import ConnectionEnded, Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

# Answered when something happens, or not at all (acks=0): these are sent, and not waited for.
WAITING = {
    "produce", "fetch", "join_group", "sync_group", "create_topics", "delete_topics", "create_partitions",
    "delete_records", "init_producer_id", "elect_leaders", "alter_partition_reassignments",
    "txn_offset_commit", "add_partitions_to_txn", "end_txn", "add_offsets_to_txn", "write_txn_markers",
    "consumer_group_heartbeat", "offset_commit", "add_raft_voter", "remove_raft_voter", "fetch_snapshot",
}  # fmt: skip
GROWTH_MAX_BYTES = 300 << 20


def memory_of(broker: Broker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_every_api_at_every_version(broker: Broker, seed: int) -> None:
    with Wire(broker.bootstrap) as wire:
        for topic in ("t0", "t1", "quiet"):
            calls.create_topic(wire, topic, 2)
        ids = [calls.topic_id(wire, topic) for topic in ("t0", "t1")]
        cluster_id = wire.call("metadata", 12, topics=[]).cluster_id
        everything = [
            (key, version) for key, api in SERVED.items() for version in range(api.oldest, api.newest + 1)
        ]
        stranger = Stranger(seed, ids, cluster_id)
        before = memory_of(broker)
        ended = send_all(broker, stranger, everything * 4)
        assert broker.is_running
        # Who was connected all along is served as before.
        assert wire.call("metadata", 12, topics=[]).brokers
        assert calls.produce(wire, "quiet", bytes(batch(b"v"))).base_offset == 0
        assert memory_of(broker) - before < GROWTH_MAX_BYTES
    log = broker.log_text()
    assert "Traceback" not in log
    assert log.count("closed connection of") <= ended


@pytest.mark.timeout(600)
def test_requests_of_nodes_that_are_none(broker: Broker) -> None:
    """Whoever they say to be: they are refused, and the broker ends in good order."""
    with Wire(broker.bootstrap) as wire:
        cluster_id = wire.call("metadata", 12, topics=[]).cluster_id
        stranger = Stranger(3, (), cluster_id)
        everything = [(key, requests.newest(key)) for key in BY_API]
        for client_id in ("stranger", names.client_id(2, 1), "tidelog-node-" + "9" * 5000 + "-to-1"):
            send_all(broker, stranger, everything * 10, client_id)
        assert broker.is_running
        assert wire.call("metadata", 12, topics=[]).brokers
    log = broker.log_text()
    assert "Traceback" not in log
    assert log.count("refused a node of cluster") < 100
    broker.close()


def send_all(
    broker: Broker, stranger: Stranger, wanted: list[tuple[int, int]], client_id: str | None = "stranger"
) -> int:
    """Send a request for each; how many connections may have ended for it."""
    ended = 0
    wire = Wire(broker.bootstrap)
    for number, (key, version) in enumerate(wanted):
        payload = stranger.request(key, version, number, client_id, broken=stranger.chance.random() < 0.7)
        try:
            wire.send_frame(payload)
            if api_key_map[key] not in WAITING:
                (correlation_id,) = struct.unpack_from(">i", wire.receive_frame())
                assert correlation_id == number, (api_key_map[key], version, payload.hex())
                continue
        except ConnectionEnded:
            pass
        except TimeoutError:
            pytest.fail(f"no answer to {api_key_map[key]} v{version}: {payload.hex()}")
        ended += 1
        wire.socket.close()
        wire = Wire(broker.bootstrap)
    wire.socket.close()
    return ended
