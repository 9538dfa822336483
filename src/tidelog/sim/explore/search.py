"""Breadth first through all states of a small world: the first state that breaks a promise is reached on a
shortest path.
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.errors import InvariantViolation, TidelogError
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.explore.checks import look
from tidelog.sim.explore.world import World


class Action(NamedTuple):
    """A step that is possible in a state."""

    label: str
    run: Callable[[World], None]


Actions = Callable[[World], Iterator[Action]]


class Found(NamedTuple):
    """The result of a search."""

    states: int
    steps: int  # that were tried
    depth: int  # of the deepest state
    complete: bool  # Whether no state within the budgets was left out.
    problem: str = ""
    trace: tuple[str, ...] = ()

    def story(self) -> str:
        """The shortest path to the problem, step by step."""
        lines = [f"{number}. {step}" for number, step in enumerate(self.trace, 1)]
        return "\n".join([*lines, f"=> {self.problem}"])


def explore(begin: World, actions: Actions, *, depth_max: int, states_max: int) -> Found:
    """All reachable states within these bounds, until one of them breaks a promise."""
    visited = {begin.fingerprint()}
    ways: list[tuple[int, str]] = [(-1, "")]  # how each state was reached: from which, and by which step
    frontier: list[tuple[int, World]] = [(0, begin)]
    steps = depth = 0
    complete = True
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        while frontier and depth < depth_max:
            following: list[tuple[int, World]] = []
            for number, world in frontier:
                for action in actions(world):
                    steps += 1
                    child = world.child()
                    try:
                        action.run(child)
                        child.settle()
                        look(child)
                    except (Violation, InvariantViolation) as problem:
                        trace = (*_trace(ways, number), action.label)
                        return Found(len(visited), steps, depth + 1, False, str(problem), trace)
                    except TidelogError:
                        continue  # Refused: nothing has happened.
                    printed = child.fingerprint()
                    if printed not in visited:
                        visited.add(printed)
                        ways.append((number, action.label))
                        following.append((len(ways) - 1, child))
                if len(visited) >= states_max:
                    return Found(len(visited), steps, depth + 1, False)
            depth += bool(following)
            frontier = following
        complete = not frontier
        return Found(len(visited), steps, depth, complete)
    finally:
        logging.disable(disabled)


def _trace(ways: list[tuple[int, str]], number: int) -> list[str]:
    steps = []
    while number > 0:
        number, label = ways[number]
        steps.append(label)
    return steps[::-1]
