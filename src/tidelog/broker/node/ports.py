"""Messages and callbacks between a node and its environment."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import ControllerAsk, ControllerGot
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Contradicted, raise_contradiction
from tidelog.replication.messages import Message, Peers
from tidelog.services import ignore


class Asked(NamedTuple):
    """A broker's request to the node that it believes to be the active controller."""

    sender: int
    ask: ControllerAsk


class Answered(NamedTuple):
    sender: int
    got: ControllerGot


NodeMessage = Message | Asked | Answered


class NodePeers(Peers, Protocol):
    def send(self, to: int, message: NodeMessage) -> None: ...


class NodeState(Protocol):
    """The state of a node and its metadata, for the parts of the node."""

    @property
    def me(self) -> int: ...

    @property
    def stopped(self) -> bool: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def roles_are_current(self) -> bool:
        """Whether every replica here has acted on the image. They do so a few at a time."""


class NodePorts(NamedTuple):
    """Callbacks of a node for its environment."""

    on_metadata: Callable[[ClusterImage], None]  # applies the metadata to settings and partitions
    on_applied: Callable[[ClusterImage], None] = ignore  # new metadata; called before the node acts on it
    on_metadata_checked: Callable[[], None] = ignore  # its log is open and synced; before this node votes
    on_registered: Callable[[], None] = ignore  # registered, all logs are open, none has failed
    # Written records may be missing after a restart of the process, even without a power failure.
    on_sync_failed: Callable[[], None] = ignore
    on_role: Callable[[ReplicaDriver], None] = ignore
    on_committed: Callable[[ReplicaDriver], None] = ignore
    on_turned_away: Callable[[str], None] = ignore  # the registration is refused permanently; with the reason
    on_contradiction: Contradicted = raise_contradiction
