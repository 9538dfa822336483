"""What a topic promises before and after a change, and the question whether it may promise less."""

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

from tidelog.cli.client import find_topic
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.consent import consent
from tidelog.cli.tables import count
from tidelog.config import TOPIC_SETTINGS
from tidelog.config.modes import DEFAULTS, ISR
from tidelog.planner.faults import usual_placement
from tidelog.planner.promises import Terms, survives_destruction
from tidelog.planner.table import failures_tolerated
from tidelog.planner.terms import DECIDING, terms_of_settings, terms_of_values

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COUNTED = (
    "failures tolerated for writes",
    "failures tolerated for reads",
    "lost disks tolerated without data loss",
)


def terms_of(description: Mapping[str, Any]) -> Terms:
    """What decides about the promise of a topic, from the description that clients get."""
    values = {each["name"]: each["value"] for each in description["settings"]}
    # The partition with the fewest decides what can be relied on.
    return terms_of_settings(
        values, min(len(partition["replicas"]) for partition in description["partitions"])
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
        f"{promised.mode}, {count(promised.replicas, 'replica')}, {promised.copies} "
        f"{'copy' if promised.copies == 1 else 'copies'} before an acknowledgement, {synced}; writes survive "
        f"{count(writes, 'failure')}, data survive "
        f"{count(disks, 'lost disk')}"
    )


def agree(topic: str, before: Terms, after: Terms, *, yes: bool) -> None:
    """Show both promises where they differ, and ask where the new one is weaker. ``yes``: it is agreed."""
    if before == after:
        return
    print(f"{topic} before: {summary(before)}.\n{topic} after:  {summary(after)}.")
    weaker = losses_of(before, after)
    if weaker:
        consent(f"{topic} would promise less: {'; '.join(weaker)}.", yes=yes)


def agree_to_change(
    admin: "AdminClient", topic: str, settings: Mapping[str, str], unset: Iterable[str], *, yes: bool
) -> None:
    """Of a change of settings."""
    if not {*settings, *unset} & set(DECIDING):
        return
    described = setting_admin.read_topics(admin, [topic]).get(topic, [])
    partitions = [{"replicas": each.replicas} for each in find_topic(admin, topic).partitions.values()]
    if not described or not partitions:
        return  # The request itself says what is wrong.
    before = terms_of({"settings": described, "partitions": partitions})
    after = terms_of_values(_resolved(described, settings, set(unset)), before.replicas)
    agree(topic, before, after, yes=yes)


def _resolved(
    described: Iterable[Mapping[str, Any]], settings: Mapping[str, str], unset: Set[str]
) -> dict[str, Any]:
    """The values that decide, after a change. What neither the topic nor the new mode sets has its default:
    another value that the brokers have for all topics is not known here.
    """
    now = {each["name"]: each for each in described if each["name"] in DECIDING}
    own = {
        name: each["value"] for name, each in now.items() if each["set_by"] == "topic" and name not in unset
    } | {name: value for name, value in settings.items() if name in DECIDING}
    mode = own.get("replication.mode", ISR)
    of_mode = DEFAULTS.get(now["replication.mode"]["value"], {})
    kept = {
        name: TOPIC_SETTINGS[name].parse(each["value"])
        for name, each in now.items()
        if each["set_by"] != "topic" and name not in of_mode
    }
    defaults = {name: TOPIC_SETTINGS[name].default for name in DECIDING}
    chosen = {name: TOPIC_SETTINGS[name].parse(value) for name, value in own.items()}
    return defaults | kept | dict(DEFAULTS.get(mode, {})) | {"replication.mode": mode} | chosen
