"""Divides the limit of a micro-batch among partitions."""

from math import ceil

from tidelog.spark.reading.planning import Offsets


def share(begin: Offsets, end: Offsets, limit: int) -> Offsets:
    """New ends, together about ``limit`` after the starts: each partition by its backlog.

    A partition with anything to read gets at least one record, so that none starves.
    """
    backlog = {one: max(offset - begin.get(one, 0), 0) for one, offset in end.items()}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    shares = {one: limit * size / total for one, size in backlog.items()}
    return {
        one: min(
            begin.get(one, 0) + (ceil(part) if part < 1 else int(part)), max(end[one], begin.get(one, 0))
        )
        for one, part in shares.items()
    }
