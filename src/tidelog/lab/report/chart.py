"""The time line of one round as a drawing: acknowledged writes and reads per second, the worst latency, who
leads, and faults as bands across all of it.
"""

from collections.abc import Iterator, Sequence

from tidelog.lab.report.svg import (
    Box,
    Point,
    Scale,
    area,
    drawing,
    line,
    log_ticks,
    nice_step,
    number,
    path,
    rect,
    text,
    ticks,
)
from tidelog.lab.results import Band, TimeLine

WIDTH = 760.0
LEFT, RIGHT = 58.0, 12.0
RATE_HEIGHT, LATENCY_HEIGHT, LEADER_HEIGHT = 110.0, 80.0, 18.0
HEAD, GAP, FOOT = 22.0, 26.0, 36.0  # above: the legend
LINE_HEIGHT = 14.0
LEGEND = 12.0  # the line that its words stand on
LATENCY_LOW_MS = 1.0
LETTER = 6.8  # width of one, about
LEADERS = 5  # shades of brokers


def chart(time_line: TimeLine) -> str:
    steps = len(time_line.acknowledged)
    if not steps:
        return '<p class="quiet">No events.</p>'
    start = time_line.start_s
    end = start + steps * time_line.step_s
    rows = _label_rows(time_line.faults, Scale(start, end, LEFT, WIDTH - RIGHT))
    top = HEAD + LINE_HEIGHT * (max(rows, default=-1) + 1)
    rate = Box(LEFT, top + 4, WIDTH - LEFT - RIGHT, RATE_HEIGHT)
    latency = Box(LEFT, rate.bottom + GAP, rate.width, LATENCY_HEIGHT)
    leader = Box(LEFT, latency.bottom + GAP, rate.width, LEADER_HEIGHT)
    across = Scale(start, end, LEFT, WIDTH - RIGHT)
    parts = [
        *_bands(time_line.faults, rows, across, rate.top, leader.bottom, end),
        *_rates(time_line, rate, across),
        *_latencies(time_line, latency, across),
        *_leaders(time_line, leader, across),
        *_seconds(across, leader.bottom),
    ]
    return drawing(WIDTH, leader.bottom + FOOT, parts, _described(time_line))


def _middles(time_line: TimeLine, across: Scale) -> list[float]:
    step = time_line.step_s
    count = len(time_line.acknowledged)
    return [across(time_line.start_s + (place + 0.5) * step) for place in range(count)]


def _rates(time_line: TimeLine, box: Box, across: Scale) -> Iterator[str]:
    writes = [count / time_line.step_s for count in time_line.acknowledged]
    reads = [count / time_line.step_s for count in time_line.received]
    # A peak after a fault, of all that had waited, would flatten the rest.
    usual = sorted(writes)[int(len(writes) * 0.9)] if writes else 0.0
    high = max(min(max([*writes, *reads], default=0.0), 2.5 * usual), 1.0)
    up = Scale(0.0, _ceiling(high), box.bottom, box.top)
    yield from _grid(box, up, ticks(0.0, up.high, 4))
    middles = _middles(time_line, across)
    points: list[Point] = [(x, up(value)) for x, value in zip(middles, writes, strict=True)]
    yield area(points, box.bottom, "writes-area")
    yield path(points, "writes")
    yield path([(x, up(value)) for x, value in zip(middles, reads, strict=False)], "reads")
    yield text(box.left, LEGEND, "per second:", "name")
    yield line(box.left + 70, LEGEND - 4, box.left + 90, LEGEND - 4, "writes")
    yield text(box.left + 95, LEGEND, "acknowledged writes", "name writes-name")
    yield line(box.left + 230, LEGEND - 4, box.left + 250, LEGEND - 4, "reads")
    yield text(box.left + 255, LEGEND, "reads", "name reads-name")
    if max([*writes, *reads], default=0.0) > up.high:
        yield text(box.right, LEGEND, f"peak {number(round(max([*writes, *reads])))}", "name", "end")


def _latencies(time_line: TimeLine, box: Box, across: Scale) -> Iterator[str]:
    known = [value for value in time_line.latency_ms if value is not None]
    high = max([*known, 10 * LATENCY_LOW_MS])
    up = Scale(LATENCY_LOW_MS, high * 1.2, box.bottom, box.top, is_log=True)
    yield from _grid(box, up, log_ticks(up.low, up.high))
    yield text(box.left, box.top - 6, "slowest acknowledged write, ms", "name")
    points = [
        None if value is None else (x, up(value))
        for x, value in zip(_middles(time_line, across), time_line.latency_ms, strict=False)
    ]
    yield path(points, "latency")
    for point in _alone(points):
        yield rect(Box(point[0] - 1.5, point[1] - 1.5, 3, 3), "latency-dot")


def _alone(points: Sequence[Point | None]) -> Iterator[Point]:
    """A point between two gaps, of which a line shows nothing."""
    for place, point in enumerate(points):
        before = points[place - 1] if place else None
        after = points[place + 1] if place + 1 < len(points) else None
        if point is not None and before is None and after is None:
            yield point


def _leaders(time_line: TimeLine, box: Box, across: Scale) -> Iterator[str]:
    yield text(box.left, box.top - 6, "leader of partition 0", "name")
    if not any(leader >= 0 for leader in time_line.leader):
        yield text(box.left + 4, box.top + 13, "not sampled", "name")
        return
    step, start = time_line.step_s, time_line.start_s
    for leader, first, last in _runs(time_line.leader):
        left, right = across(start + first * step), across(start + last * step)
        words = "none" if leader < 0 else f"broker {leader}"
        shade = "leader-none" if leader < 0 else f"leader leader-{leader % LEADERS}"
        yield rect(Box(left, box.top, right - left, box.height), shade, words)
        short = words if right - left > LETTER * len(words) + 6 else words.removeprefix("broker ")
        if right - left > LETTER * len(short) + 4:
            yield text((left + right) / 2, box.top + 13, short, "on-leader", "middle")


def _runs(values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Value, first place and exclusive end of each run of the same value."""
    first = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[first]:
            yield values[first], first, place
            first = place


def _bands(
    faults: Sequence[Band], rows: Sequence[int], across: Scale, top: float, bottom: float, end: float
) -> Iterator[str]:
    for fault, row in zip(faults, rows, strict=True):
        left = across(fault.start_s)
        right = across(end if fault.end_s is None else fault.end_s)
        yield rect(Box(left, top, right - left, bottom - top), "fault", fault.name)
        yield line(left, HEAD + row * LINE_HEIGHT + 4, left, bottom, "fault-edge")
        if fault.end_s is not None:
            yield line(right, top, right, bottom, "fault-end")
        words = fault.name
        if left + LETTER * len(words) > WIDTH - RIGHT:
            yield text(left - 4, HEAD + row * LINE_HEIGHT + 10, words, "fault-name", "end")
        else:
            yield text(left + 4, HEAD + row * LINE_HEIGHT + 10, words, "fault-name")


def _label_rows(faults: Sequence[Band], across: Scale) -> list[int]:
    """In which line the name of each is, so that none covers another."""
    ends: list[float] = []
    rows = []
    for fault in faults:
        left = across(fault.start_s)
        width = LETTER * len(fault.name) + 12
        begin = left - width if left + width > WIDTH - RIGHT else left
        row = next((place for place, end in enumerate(ends) if begin > end), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = begin + width
        rows.append(row)
    return rows


def _seconds(across: Scale, top: float) -> Iterator[str]:
    for second in ticks(across.low, across.high, 12):
        yield line(across(second), top, across(second), top + 4, "axis")
        yield text(across(second), top + 16, number(round(second, 6)), "tick", "middle")
    yield text(across.end, top + 28, "seconds of steady load", "tick", "end")


def _grid(box: Box, up: Scale, values: Sequence[float]) -> Iterator[str]:
    for value in values:
        yield line(box.left, up(value), box.right, up(value), "grid")
        yield text(box.left - 6, up(value) + 4, number(round(value, 6)), "tick", "end")
    yield line(box.left, box.bottom, box.right, box.bottom, "axis")


def _ceiling(high: float) -> float:
    step = nice_step(high, 4)
    return step * -(-high // step)


def _described(time_line: TimeLine) -> str:
    faults = ", ".join(fault.name for fault in time_line.faults) or "no fault"
    total = sum(time_line.acknowledged)
    seconds = len(time_line.acknowledged) * time_line.step_s
    return f"Time line of {seconds:.1f} seconds: {total} writes acknowledged; {faults}"
