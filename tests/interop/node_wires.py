"""A connection that has logged in as a node: for requests that a broker takes from nodes only."""

from pathlib import Path

from tidelog.runtime.peers import names
from tidelog.runtime.peers.node_login import NodeLogin
from tidelog.runtime.secret_files import read_cluster_secret

from .wire import Wire

NODE = 7  # not in any cluster of the tests


def node_wire(bootstrap: str, secret: Path, node: int = NODE, to: int = 1) -> Wire:
    login = NodeLogin(read_cluster_secret(secret), node, to)
    wire = Wire(bootstrap, client_id=names.client_id(node, to))
    wire.send_bytes(login.first())
    while not login.done:
        wire.send_bytes(login.take(memoryview(wire.receive_frame())))
    return wire
