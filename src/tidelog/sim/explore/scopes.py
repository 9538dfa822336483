"""The small worlds that are visited as a whole."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.config.modes import ISR, QUORUM
from tidelog.config.topic import REPLICATION_MODE
from tidelog.sim.explore import actions
from tidelog.sim.explore.checks import look
from tidelog.sim.explore.search import Actions, Found, explore
from tidelog.sim.explore.world import Surroundings, World

NODES = (1, 2, 3)


class Scope(NamedTuple):
    about: str
    begin: Callable[[], World]
    actions: Actions
    depth_max: int
    states_max: int = 1_000_000

    def search(self, *, depth_max: int | None = None, states_max: int | None = None) -> Found:
        """All of it, or as much as requested."""
        return explore(
            self.begin(),
            self.actions,
            depth_max=self.depth_max if depth_max is None else depth_max,
            states_max=self.states_max if states_max is None else states_max,
        )


def _world(mode: str, *, instant: bool) -> World:
    world = World(Surroundings(instant=instant), {})
    world.found(NODES, mode, {REPLICATION_MODE: mode})
    world.settle()
    return world


_ANYTHING = actions.all_of(
    actions.produce, actions.fetch, actions.stand, actions.kill, actions.start, actions.fence,
    actions.unfence, actions.hear, actions.deliver, actions.pass_time, actions.damage,
)  # fmt: skip


def _do(world: World, *labels: str) -> None:
    """Steps that every trace begins with, whatever they cost."""
    world.budgets = dict.fromkeys(("records", "elections", "kills", "fences", "damage"), 1)
    for label in labels:
        (action,) = [each for each in _ANYTHING(world) if each.label == label]
        action.run(world)
        world.settle()
        look(world)
        world.budgets = dict.fromkeys(world.budgets, 1)
    world.budgets = {}


# --- in-sync proposals --------------------------------------------------------------------------------------


def _third_is_proposed() -> World:
    """Node 1 leads, node 2 is in sync, node 3 has caught up, and the proposal to add it is in flight."""
    world = _world(ISR, instant=False)
    hear = [f"node {number} hears of the metadata" for number in NODES]
    while any(world.unheard.values()):
        _do(world, next(label for label in hear if world.unheard[int(label[5])]))
    _do(world, "node 3 is fenced", *hear, "node 3 is fenced no more", *hear)
    _do(world, "node 1 takes r1", *["node 2 fetches from node 1"] * 2, *["node 3 fetches from node 1"] * 2)
    world.budgets = {"records": 1, "fences": 1, "repeats": 1, "doubles": 1, "kills": 1}
    return world


_PROPOSALS = actions.all_of(
    actions.produce, actions.fetch, actions.repeat, actions.deliver, actions.deliver_twice, actions.hear,
    actions.fence, actions.unfence, actions.kill, actions.start,
)  # fmt: skip


# --- forget, repair, readmit --------------------------------------------------------------------------------


def _all_have_one() -> World:
    """Node 1 leads, and all three have its first record."""
    world = _world(QUORUM, instant=True)
    _do(world, "after a silence node 1 asks for votes, and hears 2 and 3", "node 1 takes r1")
    _do(world, *["node 2 fetches from node 1", "node 3 fetches from node 1"] * 3)
    return world


def _forget() -> World:
    """Node 3 is down, and has everything."""
    world = _all_have_one()
    _do(world, "node 3 is killed")
    world.budgets = {"kills": 3, "disks": 2, "elections": 1}
    return world


def _removed() -> World:
    """The same, with single logs that are removed."""
    world = _forget()
    world.budgets = {"kills": 3, "logs": 2, "elections": 1}
    return world


def _repair() -> World:
    world = _all_have_one()
    world.budgets = {"records": 1, "kills": 1, "elections": 1, "damage": 1}
    return world


def _repair_again() -> World:
    """Node 2 was damaged, repaired and readmitted, and its process still runs."""
    world = _all_have_one()
    second, third = "node 2 fetches from node 1", "node 3 fetches from node 1"
    time = "time passes at node 1"
    _do(world, "node 2 finds its log damaged", second, second, third, time)
    _do(world, third, third, second, second, time, third, third, second, time, second)
    world.budgets = {"records": 1, "kills": 1, "elections": 1, "damage": 1}
    return world


_VOTERS = actions.all_of(
    actions.produce, actions.fetch, actions.stand, actions.kill, actions.start, actions.start_empty,
    actions.start_without_log,    actions.damage, actions.pass_time,
)  # fmt: skip


# --- seal, change of mode, stand in -------------------------------------------------------------------------


def _second_leads() -> World:
    """Node 2 leads, though node 1 comes first in the placement; all are in sync."""
    world = _world(ISR, instant=True)
    _do(
        world, "node 1 is killed", "node 1 starts", "node 1 fetches from node 2", "node 3 fetches from node 2"
    )
    world.budgets = {"records": 2, "kills": 1, "modes": 1, "elections": 0}
    return world


def _to_be_sealed() -> World:
    """Voters: node 1 leads, node 3 has everything, node 2 lacks the last record, and the topic changes to
    isr.
    """
    world = _all_have_one()
    _do(world, "node 1 takes r2", *["node 3 fetches from node 1"] * 2)
    world.configure({REPLICATION_MODE: ISR})
    world.settle()
    world.budgets = {"records": 1, "kills": 1, "elections": 1}
    return world


_MODES = actions.all_of(
    actions.produce, actions.fetch, actions.stand, actions.kill, actions.start, actions.change_mode,
    actions.pass_time,
)  # fmt: skip


SCOPES: dict[str, Scope] = {
    "proposals": Scope(
        "in-sync proposals that are late, doubled and repeated", _third_is_proposed, _PROPOSALS, 9
    ),
    "forget": Scope("voters that come back with empty disks", _forget, _VOTERS, 6),
    "removed-logs": Scope("voters whose logs were removed", _removed, _VOTERS, 5),
    "repair": Scope("voters that are damaged, repaired and readmitted", _repair, _VOTERS, 5),
    "repair-again": Scope("a voter that was readmitted and is damaged again", _repair_again, _VOTERS, 4),
    "modes": Scope("seals, changes of mode and stand-ins", _second_leads, _MODES, 30),
    "seals": Scope("voters whose log is sealed, elections and kills meanwhile", _to_be_sealed, _MODES, 5),
}
"""Each with the depth of a test run; a search may go deeper."""
