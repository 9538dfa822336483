"""Exhaustive small scopes: all interleavings of a small world, visited once each.

Seeds draw long runs of a whole cluster and see a tiny part of what can happen. Here the world is as small as
a promise needs (three replicas, a record or two, a crash, a lost message), and every order of its steps is
tried, breadth first, up to a bound on each kind of fault. A broken promise is reported as the shortest
sequence of steps that leads to it.

========================================== ===================================================================
:mod:`~tidelog.sim.explore.scopes`         the small worlds, with their bounds
:mod:`~tidelog.sim.explore.actions`        the steps
:mod:`~tidelog.sim.explore.checks`         what must hold in every state
:mod:`~tidelog.sim.explore.search`         the search
:mod:`~tidelog.sim.explore.world`          nodes, controllers, messages in flight
:mod:`~tidelog.sim.explore.frozen`         nodes as values
:mod:`~tidelog.sim.explore.node`           one node: real code on a thin driver
:mod:`~tidelog.sim.explore.copying`        copies and fingerprints of object graphs
========================================== ===================================================================

What is real and what is modelled is in docs/simulator.md.
"""

from tidelog.sim.explore.scopes import SCOPES, Scope
from tidelog.sim.explore.search import Found

__all__ = ["SCOPES", "Found", "Scope"]
