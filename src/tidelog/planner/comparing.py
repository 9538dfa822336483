"""Two promises of a topic, before and after a change: what each means, and in which respects it gets weaker.

``tidelog topic alter``, ``tidelog topic reassign`` and the page ask it.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from tidelog.config import TOPIC_SETTINGS
from tidelog.config.modes import DEFAULTS, ISR
from tidelog.planner.faults import usual_placement
from tidelog.planner.promises import Terms, survives_destruction
from tidelog.planner.table import failures_tolerated
from tidelog.planner.terms import DECIDING

MODE = "replication.mode"
OF_TOPIC = "topic"  # who has set it

COUNTED = (
    "failures tolerated for writes",
    "failures tolerated for reads",
    "lost disks tolerated without data loss",
)


def _numbers(promised: Terms) -> tuple[int, int, int]:
    """How many failures are tolerated, in the order of :data:`COUNTED`."""
    writes, reads = failures_tolerated(promised, usual_placement(promised.replicas))
    return writes, reads, survives_destruction(promised)


def losses_of(before: Terms, after: Terms) -> list[str]:
    """In which respects the promise gets weaker."""
    found = []
    for what, old, new in zip(COUNTED, _numbers(before), _numbers(after), strict=True):
        if new < old:
            found.append(f"{what}: {old} before, {new} after")
    if before.synced and not after.synced:
        found.append("acknowledged records are no longer synced to disk (flush.messages=1 keeps that)")
    if after.unclean and not before.unclean:
        found.append("unclean elections may lose acknowledged records")
    if after.may_degrade and not before.may_degrade:
        found.append("writes may be acknowledged with fewer copies while backups are slow")
    return found


def summary(promised: Terms) -> str:
    synced = "synced to disk" if promised.synced else "not synced to disk"
    writes, _, disks = _numbers(promised)
    return (
        f"{promised.mode}, {_count(promised.replicas, 'replica')}, {promised.copies} "
        f"{'copy' if promised.copies == 1 else 'copies'} before an acknowledgement, {synced}; writes survive "
        f"{_count(writes, 'failure')}, data survive {_count(disks, 'lost disk')}"
    )


def resolved(
    described: Iterable[Mapping[str, Any]], settings: Mapping[str, str], unset: Set[str]
) -> dict[str, Any]:
    """The values that decide, after a change. What neither the topic nor the new mode sets has its default:
    another value that the brokers have for all topics is not known here. ``described``: each setting's name,
    value, and who has set it (``set_by``); empty for a new topic.
    """
    now = {each["name"]: each for each in described if each["name"] in DECIDING}
    own = {
        name: each["value"] for name, each in now.items() if each["set_by"] == OF_TOPIC and name not in unset
    } | {name: value for name, value in settings.items() if name in DECIDING}
    mode = own.get(MODE, ISR)
    of_mode = DEFAULTS.get(now[MODE]["value"], {}) if MODE in now else {}
    kept = {
        name: TOPIC_SETTINGS[name].parse(each["value"])
        for name, each in now.items()
        if each["set_by"] != OF_TOPIC and name not in of_mode
    }
    defaults = {name: TOPIC_SETTINGS[name].default for name in DECIDING}
    chosen = {name: TOPIC_SETTINGS[name].parse(value) for name, value in own.items()}
    return defaults | kept | dict(DEFAULTS.get(mode, {})) | {MODE: mode} | chosen


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
