"""Runs without the garbage collector: hardly anything of a simulation is garbage before it ends, and
collecting costs a quarter of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """Older objects are untouched; the run's own are freed at its end, so that thousands of runs need no more
    memory than one.
    """
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was_on:
            gc.enable()
