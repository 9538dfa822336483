"""Work of many small steps, done in slices, so that a broker can handle requests in between."""

from collections.abc import Callable, Iterator
from itertools import islice

from tidelog.services import Services


def in_slices(services: Services, steps: Iterator[object], per_slice: int, then: Callable[[], None]) -> None:
    """Do all steps, ``per_slice`` at a time, then call ``then``. The first slice is done immediately."""
    if sum(1 for _ in islice(steps, per_slice)) < per_slice:
        then()
    else:
        services.soon(lambda: in_slices(services, steps, per_slice, then))
