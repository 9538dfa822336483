"""Makes a fault of the catalogue on a cluster, and heals it.

Owns the words for faults and the table from a fault's name to the code that makes it. The code itself is in
the modules of each group. Process faults work on every cluster with ``brokers``, ``pid`` and ``launch``; the
others need a :class:`~tidelog.lab.faults.cluster.LabCluster` with the hooks for them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidelog.lab.faults import administration, disks, lines, processes
from tidelog.lab.faults.catalog import ADMINISTRATION, FAULTS, NETWORK
from tidelog.lab.faults.errors import FaultError
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties, brokers_of, words_of
from tidelog.lab.faults.processes import Processes

__all__ = ["FaultError", "Injected", "Parties", "inject"]

Values = Mapping[str, object]
Make = Callable[[Processes, Parties, Values], Injected]


def inject(
    cluster: Processes, fault: str, parties: Parties, parameters: Mapping[str, object] | None = None
) -> Injected:
    """Make the fault now. Returns once it has its effect; a start that heals is not waited for.

    :class:`FaultError` if it cannot be made; then nothing has changed, or the cluster is of no further use.
    """
    kind = FAULTS.get(fault)
    if kind is None:
        raise FaultError(f"There is no fault {fault!r}; use one of {', '.join(FAULTS)}.")
    values = {parameter.name: parameter.default for parameter in kind.parameters}
    for name, value in (parameters or {}).items():
        if name not in values:
            takes = ", ".join(values) or "no parameters"
            raise FaultError(f"The fault {fault} takes {takes}, not {name!r}.")
        values[name] = value
    make = MAKERS.get(fault)
    if make is None:
        raise FaultError(f"The fault {fault} cannot be made here.")
    return make(cluster, parties, values)


def _kill(cluster: Processes, parties: Parties, values: Values) -> Injected:
    killed = processes.kill(cluster, _running(cluster, parties))
    return Injected(f"kill -9 of {words_of(parties.first)}", partial(processes.launch, cluster, killed))


def _stop(cluster: Processes, parties: Parties, values: Values) -> Injected:
    stopped = processes.stop(cluster, _running(cluster, parties))
    return Injected(f"clean stop of {words_of(parties.first)}", partial(processes.launch, cluster, stopped))


def _freeze(cluster: Processes, parties: Parties, values: Values) -> Injected:
    frozen = processes.freeze(cluster, _running(cluster, parties))
    return Injected(f"freeze of {words_of(parties.first)}", partial(processes.thaw, frozen))


def _restart(cluster: Processes, parties: Parties, values: Values) -> Injected:
    processes.restart(cluster, _brokers(parties))
    return Injected(f"restart of {words_of(parties.first)}")


def _brokers(parties: Parties) -> list[int]:
    found = brokers_of(parties.first)
    if not found or len(found) < len(set(parties.first)):
        raise FaultError(f"This fault is on brokers, not on {words_of(parties.first) or 'nothing'}.")
    return found


def _running(cluster: Processes, parties: Parties) -> list[int]:
    """Those of them that run. A fault that hits no broker would say nothing about the cluster."""
    wanted = _brokers(parties)
    found = list(processes.running(cluster, wanted))
    if not found:
        verb = "does not run" if len(wanted) == 1 else "do not run"
        raise FaultError(f"The fault has no effect: {words_of(parties.first)} {verb}.")
    return found


def _with(
    make: Callable[[Any, Parties, Values], Injected],
    hook: str,
    fault: str,
    cluster: Processes,
    parties: Parties,
    values: Values,
) -> Injected:
    """For faults that need more of a cluster than processes."""
    if not hasattr(cluster, hook):
        raise FaultError(f"The fault {fault} cannot be made on this cluster.")
    if FAULTS[fault].group != ADMINISTRATION or fault == "drain":
        processes.running(cluster, _brokers(parties))  # they are brokers of this cluster
    return make(cluster, parties, values)


MAKERS: dict[str, Make] = {
    "kill": _kill,
    "stop": _stop,
    "freeze": _freeze,
    "restart": _restart,
    **{name: partial(lines.break_lines, name) for name, kind in FAULTS.items() if kind.group == NETWORK},
    **{
        name: partial(_with, make, "control", name)
        for name, make in (
            ("slow-disk", disks.slow_disk),
            ("full-disk", disks.full_disk),
            ("failing-disk", disks.failing_disk),
            ("clock-jump", disks.clock_jump),
        )
    },
    "power-failure": partial(_with, disks.power_failure, "journal", "power-failure"),
    "wipe": partial(_with, disks.wipe, "data_directory", "wipe"),
    "flipped-bit": partial(_with, disks.flipped_bit, "data_directory", "flipped-bit"),
    **{
        name: partial(_with, make, "client_bootstrap", name)
        for name, make in (
            ("reassign", administration.move),
            ("drain", administration.drain),
            ("change-mode", administration.change_mode),
            ("change-settings", administration.change_settings),
        )
    },
}
