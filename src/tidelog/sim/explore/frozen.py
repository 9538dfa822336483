"""Nodes as values: a node is never changed, a call to it creates another one.

The result of a call depends only on the node and the call. So it is computed once, however many worlds have a
node in this state: a world is little more than the ids of its nodes' states, and a step of the search is
mostly a table look-up.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from tidelog.broker.node.ports import NodeMessage
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import RegisterAsk, RegisterGot
from tidelog.errors import TidelogError
from tidelog.replication.messages import FetchAsk
from tidelog.sim.explore.copying import Copier, Fingerprints
from tidelog.sim.explore.disk import Disk
from tidelog.sim.explore.node import SmallNode

T = TypeVar("T")


class Frozen:
    """A node, or the disk of one that does not run, in one state at one time."""

    __slots__ = ("clock_ms", "disk", "node", "printed")

    def __init__(self, node: SmallNode | None, disk: Disk, clock_ms: int, printed: int) -> None:
        self.node = node
        self.disk = disk
        self.clock_ms = clock_ms
        self.printed = printed  # the fingerprint

    def has_dropped_damage(self, before: "Frozen") -> bool:
        """Whether a repair happened in between: otherwise only records that no leader has are
        ever truncated.
        """
        return before.is_damaged and not self.is_damaged

    @property
    def is_damaged(self) -> bool:
        driver = None if self.node is None else self.node.driver
        return driver is not None and driver.damage.offset is not None


class Outcome(NamedTuple):
    after: Frozen
    sent: tuple[tuple[int, NodeMessage], ...]
    result: Any
    refusal: TidelogError | None


class Table:
    """All states of nodes so far, and the results of their calls."""

    def __init__(self) -> None:
        self._configs: dict[int, BrokerConfig] = {}
        self._prints = Fingerprints()
        self._states: dict[tuple[int, int], Frozen] = {}
        self._outcomes: dict[Hashable, Any] = {}
        self._images: dict[bytes, ClusterImage] = {}

    # --- states ---------------------------------------------------------------------------------------------

    def freeze(self, node: SmallNode | None, disk: Disk, clock_ms: int) -> Frozen:
        """It must not be changed from now on."""
        printed = hash(self._prints.of(node or disk, clock_ms))
        key = (printed, clock_ms)
        if key not in self._states:
            self._states[key] = Frozen(node, disk, clock_ms, printed)
        return self._states[key]

    def image(self, image: ClusterImage) -> ClusterImage:
        """The same object for equal images."""
        return self._images.setdefault(self.print_of(image), image)

    def print_of(self, image: ClusterImage) -> bytes:
        return self._prints.of_struct(image)

    # --- what can happen to them ----------------------------------------------------------------------------

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._outcomes:
            self._outcomes[key] = make()
        return self._outcomes[key]  # type: ignore[no-any-return]

    def call(self, frozen: Frozen, name: str, arguments: tuple[Any, ...]) -> Outcome:
        """One of the steps of a node."""
        key = (frozen, name, tuple(map(self._name, arguments)))
        return self._once(key, lambda: self._call(frozen, name, arguments))

    def _call(self, frozen: Frozen, name: str, arguments: tuple[Any, ...]) -> Outcome:
        node: SmallNode = Copier().copy(frozen.node)
        node.clock.clock_ms = frozen.clock_ms
        result, refusal = None, None
        try:
            result = getattr(node, name)(*arguments)
        except TidelogError as error:
            refusal = error
        sent, node.mail.sent = tuple(node.mail.sent), []
        return Outcome(self.freeze(node, node.disk, frozen.clock_ms), sent, result, refusal)

    def _name(self, argument: Any) -> Hashable:
        if isinstance(argument, ClusterImage):
            return self.print_of(argument)
        if isinstance(argument, FetchAsk):
            return argument._replace(items=tuple(argument.items), forgotten=())  # type: ignore[arg-type]
        return argument  # type: ignore[no-any-return]

    def later(self, frozen: Frozen, clock_ms: int) -> Frozen:
        """The same at another time."""
        key = (frozen, clock_ms)
        return self._once(key, lambda: self.freeze(frozen.node, frozen.disk, clock_ms))

    def killed(self, frozen: Frozen) -> Frozen:
        """What the process leaves behind; the high watermark was just checkpointed."""
        return self._once((frozen, "killed"), lambda: self._killed(frozen))

    def _killed(self, frozen: Frozen) -> Frozen:
        node: SmallNode = Copier().copy(frozen.node)
        if node.driver is not None:
            node.disk.high_watermark = node.driver.replica.high_watermark
            node.disk.was_log_confirmed = node.driver.replica.watermark.log_confirmed
        return self.freeze(None, node.disk, frozen.clock_ms)

    def without_log(self, frozen: Frozen) -> Frozen:
        disk: Disk = Copier().copy(frozen.disk)
        disk.remove_log()
        return self.freeze(None, disk, frozen.clock_ms)

    def started(self, frozen: Frozen, registration: RegisterAsk, got: RegisterGot) -> Frozen:
        key = (frozen, registration, got)
        return self._once(key, lambda: self._started(frozen, registration, got))

    def _started(self, frozen: Frozen, registration: RegisterAsk, got: RegisterGot) -> Frozen:
        disk = Copier().copy(frozen.disk)
        config = self._configs.get(got.broker_id)
        if config is None:
            config = self._configs[got.broker_id] = BrokerConfig.parse({"node.id": got.broker_id})
        node = SmallNode(config, registration, disk, frozen.clock_ms)
        node.registered(got)
        return self.freeze(node, disk, frozen.clock_ms)
