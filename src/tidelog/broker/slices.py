"""Work of many small steps, a slice at a time, so that a broker answers requests in between."""

from collections.abc import Callable, Iterator
from itertools import islice

from tidelog.services import Services


def in_slices(services: Services, steps: Iterator[object], per_slice: int, then: Callable[[], None]) -> None:
    """Take all steps, ``per_slice`` of them at a time, and go on with ``then``. A few are taken at once."""
    if sum(1 for _ in islice(steps, per_slice)) < per_slice:
        then()
    else:
        services.soon(lambda: in_slices(services, steps, per_slice, then))
