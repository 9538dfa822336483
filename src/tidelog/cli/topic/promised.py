"""What a topic promises before and after a change, and the question whether it may promise less."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.cli.config import admin as setting_admin
from tidelog.cli.consent import consent
from tidelog.cli.topic import admin as topic_admin
from tidelog.planner.comparing import losses_of, resolved, summary
from tidelog.planner.promises import Terms
from tidelog.planner.terms import DECIDING, terms_of_settings, terms_of_values

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def terms_of(description: Mapping[str, Any]) -> Terms:
    """What decides about the promise of a topic, from the description that clients get."""
    values = {each["name"]: each["value"] for each in description["settings"]}
    # The partition with the fewest decides what can be relied on.
    return terms_of_settings(
        values, min(len(partition["replicas"]) for partition in description["partitions"])
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
    partitions = [{"replicas": each} for each in topic_admin.replicas_of(admin, topic)]
    if not described or not partitions:
        return  # The request itself says what is wrong.
    before = terms_of({"settings": described, "partitions": partitions})
    after = terms_of_values(resolved(described, settings, set(unset)), before.replicas)
    after = after._replace(kafka=before.kafka)
    agree(topic, before, after, yes=yes)
