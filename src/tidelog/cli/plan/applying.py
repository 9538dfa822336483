"""``--apply``: a topic gets the settings of a plan, with consent."""

from collections.abc import Mapping
from typing import Any

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan import live
from tidelog.cli.plan.settings import create_command, topic_settings
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.topic.mode_changes import MODE_TIMEOUT_S, follow_change, unset_for
from tidelog.planner.needs import Candidate, assess, count
from tidelog.planner.promises import SYNC_EVERY_MESSAGE, Terms
from tidelog.planner.what_if import Live

FLUSHED = str(SYNC_EVERY_MESSAGE)


def apply(bootstrap: str, topic: str, plan: Candidate, partitions: int, *, ask: bool) -> None:
    """Create the topic, or change the settings of one that has as many replicas. ``partitions``: 0 if none
    were asked for.
    """
    terms = plan.terms
    admin = connect_admin(bootstrap)
    rows = [each for each in topic_admin.list_topics(admin, internal=False) if each["name"] == topic]
    settings = topic_settings(terms)
    if rows:
        check_shape(rows[0], terms, partitions)
    with ClusterClient(bootstrap) as client:
        found = live.look(client, admin)
    if not rows and terms.replicas > len(found.brokers):
        raise CommandFailed(
            f"The plan has {count(terms.replicas, 'replica')}, and this cluster has "
            f"{count(len(found.brokers), 'broker')}: each holds one replica at most."
        )
    shortfalls = weaker_here(found, topic, plan)
    if shortfalls:
        print("\nOn this cluster, the settings tolerate less than in the plan:")
        print("\n".join(f"- {each}" for each in shortfalls))
    if not rows:
        _consent(f"\nCreate topic {topic}: {create_command(topic, terms, partitions)}", ask)
        topic_admin.create(admin, topic, partitions or topic_admin.BROKER_DEFAULT, terms.replicas, settings)
        print(f"Created topic {topic}.")
        return
    mode = terms.mode
    # What has no meaning in the new mode is in the question: to agree once is enough.
    unset = unset_for(admin, topic, mode, settings, [], yes=True) if rows[0]["mode"] != mode else []
    unset += [name for name in weakening(topic_admin.own_settings(admin, topic), terms) if name not in unset]
    words = [f"{name}={value}" for name, value in settings.items()] + [f"unset {name}" for name in unset]
    _consent(f"\nChange topic {topic}: {', '.join(words)}", ask)
    setting_admin.change_topic(admin, topic, settings, unset)
    if rows[0]["mode"] != mode:
        follow_change(admin, topic, mode, MODE_TIMEOUT_S)
    print(f"Changed topic {topic}.")


def check_shape(row: Mapping[str, Any], terms: Terms, partitions: int) -> None:
    """What settings do not change: refused rather than left out of what was agreed to."""
    name = row["name"]
    if row["replicas"] != terms.replicas:
        raise CommandFailed(
            f"Topic {name} has {count(row['replicas'], 'replica')}, and the plan has {terms.replicas}; "
            "`tidelog topic reassign` adds or removes replicas first."
        )
    if partitions not in (0, row["partitions"]):
        more = f"; `tidelog topic alter {name} --partitions {partitions}` adds some"
        raise CommandFailed(
            f"Topic {name} has {count(row['partitions'], 'partition')}, and --queues asks for {partitions}"
            f"{more if partitions > row['partitions'] else ', and partitions cannot be removed'}."
        )


def weaker_here(found: Live, topic: str, plan: Candidate) -> list[str]:
    """What the settings promise less on the brokers of this cluster than on those of the plan."""
    there = [each for each in found.places if each.topic == topic]
    planned = assess(plan.terms, plan.where)
    if there:
        _, here = live.weakest(
            [each._replace(terms=plan.terms._replace(replicas=each.terms.replicas)) for each in there]
        )
    else:
        here = assess(plan.terms, live.usual_place(found, plan.terms.replicas))
    rows = [
        ("dead brokers for writes", planned.writes, here.writes),
        ("dead brokers for reads", planned.reads, here.reads),
        ("lost disks", planned.disks, here.disks),
    ]
    if plan.where.racks:
        rows.append(("racks without power", planned.racks, here.racks))
    return [f"{what}: {now} instead of {wanted}" for what, wanted, now in rows if now < wanted]


def weakening(own: Mapping[str, str], terms: Terms) -> list[str]:
    """Settings of the topic itself with which it would promise less than the plan says, and which the plan's
    own settings do not replace.
    """
    found = []
    if terms.synced and own.get("flush.messages", FLUSHED) != FLUSHED:
        found.append("flush.messages")
    if not terms.degrades and "replication.degrade.after.ms" in own:
        found.append("replication.degrade.after.ms")
    return [name for name in found if name not in topic_settings(terms)]


def _consent(what: str, ask: bool) -> None:
    print(what)
    if ask and not typer.confirm("Do it?"):
        raise CommandFailed("Nothing was changed.")
