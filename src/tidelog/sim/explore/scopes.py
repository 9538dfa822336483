"""The small worlds that are visited as a whole."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.config.topic import REPLICATION_MODE
from tidelog.sim.explore import actions
from tidelog.sim.explore.checks import look
from tidelog.sim.explore.search import Action, Actions, Found, explore
from tidelog.sim.explore.world import Surroundings, World

NODES = (1, 2, 3)


class Scope(NamedTuple):
    about: str
    begin: Callable[[], World]
    actions: Actions
    depth_max: int
    states_max: int = 1_000_000

    def search(self, *, depth_max: int | None = None, states_max: int | None = None) -> Found:
        return explore(
            self.begin(),
            self.actions,
            depth_max=depth_max or self.depth_max,
            states_max=states_max or self.states_max,
        )


def _world(mode: str, budgets: dict[str, int], *, instant: bool, **configs: str) -> World:
    config = BrokerConfig.parse({"node.id": 1})
    world = World(Surroundings(config, instant=instant), budgets)
    overrides = {name.replace("_", "."): value for name, value in configs.items()}
    world.found(NODES, mode, {REPLICATION_MODE: mode, **overrides})
    return world


def _do(world: World, run: Callable[[World], None]) -> None:
    run(world)
    world.settle()
    look(world)


def _fetch(world: World, number: int) -> None:
    (action,) = [each for each in actions.fetch(world) if each.label.startswith(f"node {number} ")]
    _do(world, action.run)


def _run(world: World, *labels: str, kinds: Actions) -> None:
    """Steps that every trace of a scope begins with."""
    for label in labels:
        (action,) = [each for each in kinds(world) if each.label == label]
        _do(world, action.run)
