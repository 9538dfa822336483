"""Which transitions, effects, error paths and branches the seeds reached, and which not.

Counted against the code's own tables (roles, election states, effects, messages, kinds of metadata records,
error codes in the sources) and its sources, so that additions appear here as "never". Recording costs time:
it is active only on request.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, get_args

import tidelog.replication
from tidelog.broker.node.ports import NodeMessage
from tidelog.controller import brokers, controller, leader_assignment, leadership, logs, reassignment, records
from tidelog.controller.messages import ControllerAsk, ControllerGot
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log import producers
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import Effect
from tidelog.replication.election import Election, ElectionState
from tidelog.replication.messages import FetchGot
from tidelog.replication.replica import Replica, Role
from tidelog.replication.votes import ElectionEffect
from tidelog.sim.branches import Branch, Branches
from tidelog.sim.clients.admin import ACTS, Admin
from tidelog.sim.cluster import SimCluster
from tidelog.sim.faults import FAULTS, Fault, Nemesis
from tidelog.sim.network import Network

_CODE = re.compile(r"ErrorCode\.([A-Z_]+)")

# Excluded by the rules; the rest of the pairs can happen.
_IMPOSSIBLE = {
    "follower → prospective": "it lets go of its leader first",
    "follower → leader": "only a candidate wins",
    "unattached → leader": "only a candidate wins",
    "prospective → leader": "only a candidate wins",
    "leader → candidate": "it steps down first",
    "leader → prospective": "it steps down first",
}


class Reached(NamedTuple):
    """What one process reached, as plain data."""

    tables: dict[str, dict[str, int]]
    branches: set[Branch]
    functions: set[tuple[str, str]]


class Coverage:
    def __init__(self) -> None:
        self.tables: dict[str, dict[str, int]] = {
            "roles of replicas": _pairs(each.value for each in Role),
            "states of elections": _pairs(each.value for each in ElectionState),
            "effects": _names(*get_args(Effect), *get_args(ElectionEffect)),
            "messages": _names(*get_args(NodeMessage), *get_args(ControllerAsk), *get_args(ControllerGot)),
            "metadata records": _names(*get_args(records.MetadataRecord)),
            "errors": dict.fromkeys(sorted(_codes()), 0),
            "faults": {fault.name: 0 for fault in FAULTS},
            "changes by the administrator": {name: 0 for name, _ in ACTS},
        }
        self.branches = Branches()

    def count(self, table: str, item: str) -> None:
        counts = self.tables[table]
        counts[item] = counts.get(item, 0) + 1

    def never(self, table: str) -> list[str]:
        return [item for item, count in self.tables[table].items() if not count]

    def summary(self) -> dict[str, str]:
        """Reached of all, for each table."""
        tables = {
            table: f"{len(counts) - len(self.never(table))}/{len(counts)}"
            for table, counts in self.tables.items()
        }
        branches = {
            f"branches of {package}": f"{taken}/{count}"
            for package, (taken, count) in self.branches.counts().items()
        }
        return tables | branches

    def report(self) -> list[str]:
        lines = []
        for table, reached in self.summary().items():
            lines.append(f"{table}: {reached} reached")
            if table in self.tables and (never := self.never(table)):
                lines.append(f"  never: {', '.join(never)}")
        return [*lines, "branches that were not taken:", *self.branches.report()]

    def reached(self) -> Reached:
        return Reached(self.tables, self.branches.taken, self.branches.entered)

    def add(self, reached: Reached) -> None:
        """Add what another process has reached."""
        for table, counts in reached.tables.items():
            for item, count in counts.items():
                self.tables[table][item] = self.tables[table].get(item, 0) + count
        self.branches.taken |= reached.branches
        self.branches.entered |= reached.functions

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count everything in all simulations meanwhile."""
        undo = [
            self._watch_state(Replica, "role", "roles of replicas"),
            self._watch_state(Election, "state", "states of elections"),
            self._watch_calls(ReplicaDriver, "run", self._effects),
            self._watch_calls(Elected, "elect", self._effects),
            self._watch_calls(Network, "send", self._message),
            self._watch_calls(Nemesis, "do", self._fault),
            self._watch_calls(Admin, "note_act", self._act),
            self._watch_calls(records, "encode", self._record),
            self._watch_calls(SimCluster, "decided", self._decided),
        ]
        try:
            with self.branches.watch():
                yield
        finally:
            for each in reversed(undo):
                each()

    # --- what is seen ---------------------------------------------------------------------------------------

    def _effects(self, driver: object, effects: Iterable[object]) -> None:
        for effect in effects:
            self.count("effects", type(effect).__name__)

    def _message(self, network: Network, sender: int, receiver: int, message: Any, **options: Any) -> None:
        inner = [message, *(getattr(message, name) for name in ("ask", "got") if hasattr(message, name))]
        for each in inner:
            if type(each).__name__ in self.tables["messages"]:
                self.count("messages", type(each).__name__)
            self._error(getattr(each, "error", ErrorCode.NONE))
        if isinstance(message, FetchGot):
            for part in message.parts:
                self._error(part.error)

    def _error(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE and code.name in self.tables["errors"]:
            self.count("errors", code.name)

    def _fault(self, nemesis: Nemesis, fault: Fault) -> None:
        self.count("faults", fault.name)

    def _act(self, admin: Admin, name: str) -> None:
        self.count("changes by the administrator", name)

    def _decided(self, cluster: SimCluster, error: TidelogError | None) -> None:
        if error is not None:
            self._error(error.code)

    def _record(self, record: object) -> None:
        self.count("metadata records", type(record).__name__)

    # --- watching -------------------------------------------------------------------------------------------

    @staticmethod
    def _watch_calls(owner: Any, name: str, seen: Callable[..., None]) -> Callable[[], None]:
        original = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            seen(*args, **options)
            return original(*args, **options)

        setattr(owner, name, watched)
        return lambda: setattr(owner, name, original)

    def _watch_state(self, owner: type, name: str, table: str) -> Callable[[], None]:
        """Count the changes of an attribute, in a slot or in the object's dictionary."""
        slot = owner.__dict__.get(name)

        def get(self: Any) -> Any:
            return slot.__get__(self) if slot is not None else self.__dict__[name]

        def change(each: Any, value: Any) -> None:
            before = get(each) if slot is None and name in each.__dict__ else None
            if slot is not None:
                try:
                    before = slot.__get__(each)
                except AttributeError:
                    before = None
                slot.__set__(each, value)
            else:
                each.__dict__[name] = value
            if before is not None and before is not value:
                self.count(table, f"{before.value} → {value.value}")

        setattr(owner, name, property(get, change))
        if slot is not None:
            return lambda: setattr(owner, name, slot)
        return lambda: delattr(owner, name)


def _names(*types: type) -> dict[str, int]:
    return {each.__name__: 0 for each in types}


def _pairs(names: Iterable[str]) -> dict[str, int]:
    all_names = list(names)
    pairs = [f"{one} → {other}" for one in all_names for other in all_names if one != other]
    return {pair: 0 for pair in pairs if pair not in _IMPOSSIBLE}


def _codes() -> set[str]:
    """Every error code that the pure packages name."""
    found: set[str] = set()
    for module in _sources():
        found.update(_CODE.findall(inspect.getsource(module)))
    return found - {"NONE"}


def _sources() -> Iterator[ModuleType]:
    """Where replicas and controllers refuse; checks of clients' input are tested elsewhere."""
    for each in pkgutil.walk_packages(tidelog.replication.__path__, tidelog.replication.__name__ + "."):
        yield import_module(each.name)
    yield from (brokers, controller, leader_assignment, leadership, logs, reassignment, producers)
