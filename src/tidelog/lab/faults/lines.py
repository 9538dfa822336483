"""Network faults: on the lines between parties."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import CLIENTS, Parties, Party, words_of
from tidelog.lab.faults.processes import Processes
from tidelog.lab.network.shape import Shape
from tidelog.lab.network.wiring import Wiring, directions_between


class Wired(Processes, Protocol):
    """A cluster whose lines can have faults."""

    @property
    def wiring(self) -> Wiring | None: ...


def shape_of(fault: str, values: Mapping[str, object]) -> Shape:
    def number(name: str) -> float:
        value = float(str(values[name]))
        if value < 0:
            raise FaultError(f"{name} of {fault} is {value:g}, and cannot be negative.")
        return value

    if fault == "delay":
        return Shape(delay_ms=number("ms"), jitter_ms=number("jitter_ms"))
    if fault == "loss":
        if number("percent") > 100:
            raise FaultError(f"percent of loss is {number('percent'):g}; at most 100 are lost.")
        return Shape(loss_percent=number("percent"))
    if fault == "bandwidth":
        if not number("kbytes_per_s"):
            raise FaultError("kbytes_per_s of bandwidth is 0; use the fault cut.")
        return Shape(kbytes_per_s=number("kbytes_per_s"))
    return Shape(cut=True)


def break_lines(fault: str, cluster: Processes, parties: Parties, values: Mapping[str, object]) -> Injected:
    wiring: Wiring | None = getattr(cluster, "wiring", None)
    if wiring is None:
        raise FaultError(f"The fault {fault} needs a cluster with a relay or namespaces; this one has none.")
    first, second = _sides(cluster, parties)
    directions = directions_between(first, second)
    if fault != "one-way-cut":
        directions += directions_between(second, first)
    shape = shape_of(fault, values)
    made = wiring.add(shape, directions)
    return Injected(_words(fault, parties, shape), partial(wiring.remove, made))


def _sides(cluster: Processes, parties: Parties) -> tuple[list[Party], list[Party]]:
    everyone: list[Party] = [*cluster.brokers, CLIENTS]
    for party in (*parties.first, *parties.second):
        if party not in everyone:
            raise FaultError(f"There is no party {party!r}; use one of {', '.join(map(str, everyone))}.")
    first = list(parties.first)
    second = list(parties.second) or [party for party in everyone if party not in first]
    if not first or not second or first == second == [CLIENTS]:
        raise FaultError("A network fault needs two parties.")
    return first, second


def _words(fault: str, parties: Parties, shape: Shape) -> str:
    first, second = words_of(parties.first), words_of(parties.second) or "all others"
    what = {
        "cut": "cut between",
        "one-way-cut": "one-way cut from",
        "delay": f"{shape.delay_ms:g} ms of delay between",
        "loss": f"{shape.loss_percent:g} % loss between",
        "bandwidth": f"{shape.kbytes_per_s:g} kB/s between",
    }[fault]
    if shape.jitter_ms:
        what = f"{shape.delay_ms:g} ± {shape.jitter_ms:g} ms of delay between"
    return f"{what} {first} {'to' if fault == 'one-way-cut' else 'and'} {second}"
