"""``tidelog sim --explore``: all interleavings of a small world."""

import json
import time

from tidelog.cli.failure import CommandFailed, InvalidCommandLine


def explore(name: str, depth: int | None) -> None:
    """Search one scope, or name them all; a broken promise is told as the shortest way to it."""
    from tidelog.sim.explore import SCOPES

    if name == "all":
        for each, scope in SCOPES.items():
            print(f"{each}: {scope.about}")
        return
    if name not in SCOPES:
        raise InvalidCommandLine(f"Unknown scope {name!r}; `tidelog sim --explore all` lists them.")
    began = time.process_time()
    found = SCOPES[name].search(depth_max=depth)
    if found.problem:
        print(found.story())
    summary = {
        "scope": name,
        "states": found.states,
        "steps": found.steps,
        "depth": found.depth,
        "complete": found.complete,
        "problem": found.problem or None,
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    print(json.dumps(summary))
    if found.problem:
        raise CommandFailed(f"A promise is broken after {len(found.trace)} steps: {found.problem}.")
