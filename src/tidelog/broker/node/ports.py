"""What a node and those around it tell each other."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import ControllerAsk, ControllerGot
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Contradicted, raise_contradiction
from tidelog.replication.messages import Message, Peers
from tidelog.services import ignore


class Asked(NamedTuple):
    """A broker's question to the node it takes for the active controller."""

    sender: int
    ask: ControllerAsk


class Answered(NamedTuple):
    sender: int
    got: ControllerGot


NodeMessage = Message | Asked | Answered


class NodePeers(Peers, Protocol):
    def send(self, to: int, message: NodeMessage) -> None: ...


class NodeState(Protocol):
    """What a node knows of itself and of the cluster."""

    @property
    def me(self) -> int: ...

    @property
    def stopped(self) -> bool: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def broker_epoch(self) -> int: ...


class NodePorts(NamedTuple):
    """Whoever embeds a node hears here what happens to it."""

    # Acts on metadata that concerns this process. None: the node's own partitions follow it.
    on_metadata: Callable[[ClusterImage], None] | None = None
    on_applied: Callable[[ClusterImage], None] = ignore  # metadata is new here; before the node acts on it
    on_registered: Callable[[], None] = ignore  # and all logs are open, none has failed
    # Records that were written may be gone for the next process although the machine stays on.
    on_sync_failed: Callable[[], None] = ignore
    on_role: Callable[[ReplicaDriver], None] = ignore
    on_committed: Callable[[ReplicaDriver], None] = ignore
    on_turned_away: Callable[[str], None] = ignore  # told why, when there is no point in asking again
    on_contradiction: Contradicted = raise_contradiction
