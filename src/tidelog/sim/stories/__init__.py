"""The truth table of the modes as stories, one for each row; and those a reader wants to understand besides.

A story is a function that tells one: its docstring is the title, its module the mode.
"""

from collections.abc import Callable, Sequence

from tidelog.sim.stories import (
    admitted_voters,
    begun_anew,
    cancelled_moves,
    change_epochs,
    change_holders,
    changes,
    chosen_logs,
    compacted_logs,
    controllers,
    copied_back,
    damage,
    damaged_controllers,
    damaged_cuts,
    damaged_leaders,
    deaf_brokers,
    deceived,
    deceived_leaders,
    deciding_again,
    deleted_records,
    disks,
    durability,
    emptied_logs,
    failed_leaders,
    failed_logs,
    failed_syncs,
    files,
    group_owners,
    hanging,
    isr,
    known_holes,
    last_members,
    last_words,
    late_copies,
    late_decisions,
    late_markers,
    late_reports,
    lost_orders,
    lowered_minimum,
    misplaced_writes,
    moved_leaders,
    moved_voters,
    old_mail,
    only_copies,
    operations,
    primary_backup,
    primary_backup_async,
    promoted_backups,
    proposals,
    quorum_memory,
    quorum_topics,
    readers,
    rebuilt_entries,
    refused_batches,
    registrations,
    renamed_disks,
    replaced_brokers,
    retention,
    scrubbing,
    seams,
    seams_two,
    stand_ins,
    two_damaged,
    unaware_leaders,
    undecided,
    unrecorded_deletions,
    unwritten_entries,
    wholeness,
)
from tidelog.sim.telling import Telling

Told = Callable[[], Telling]


def _named(mode: str, told: Sequence[Told]) -> dict[str, Told]:
    return {f"{mode}_{each.__name__}": each for each in told}


STORIES: dict[str, Told] = (
    _named("isr", isr.STORIES)
    | _named("primary_backup", (*primary_backup_async.STORIES, *primary_backup.STORIES))
    | _named("controllers", controllers.STORIES)
    | _named("quorum", (*quorum_topics.STORIES, *quorum_memory.STORIES))
    | _named("admitted_voters", admitted_voters.STORIES)
    | _named("begun_anew", begun_anew.STORIES)
    | _named("cancelled_move", cancelled_moves.STORIES)
    | _named("change", (*changes.STORIES, *change_holders.STORIES, *change_epochs.STORIES))
    | _named("compacted_log", compacted_logs.STORIES)
    | _named("copied_back", copied_back.STORIES)
    | _named("damage", (*damage.STORIES, *damaged_cuts.STORIES, *two_damaged.STORIES))
    | _named("damaged_controller", damaged_controllers.STORIES)
    | _named("damaged_leader", damaged_leaders.STORIES)
    | _named("deciding_again", deciding_again.STORIES)
    | _named("deceived", deceived.STORIES)
    | _named("deceived_leader", deceived_leaders.STORIES)
    | _named(
        "deleted_records",
        (*deleted_records.STORIES, *promoted_backups.STORIES, *unrecorded_deletions.STORIES),
    )
    | _named("disk", (*disks.STORIES, *misplaced_writes.STORIES))
    | _named("durability", durability.STORIES)
    | _named("emptied_log", emptied_logs.STORIES)
    | _named("failed_leader", failed_leaders.STORIES)
    | _named("deaf_broker", deaf_brokers.STORIES)
    | _named("failed_log", failed_logs.STORIES)
    | _named("failed_sync", failed_syncs.STORIES)
    | _named("file", files.STORIES)
    | _named("group", group_owners.STORIES)
    | _named("hanging", hanging.STORIES)
    | _named("late_marker", late_markers.STORIES)
    | _named("last_word", last_words.STORIES)
    | _named("late_copy", late_copies.STORIES)
    | _named("late_decision", late_decisions.STORIES)
    | _named("minimum", lowered_minimum.STORIES)
    | _named("only_copy", only_copies.STORIES)
    | _named("late_report", late_reports.STORIES)
    | _named("lost_order", lost_orders.STORIES)
    | _named("moved_leader", moved_leaders.STORIES)
    | _named("moved_voters", moved_voters.STORIES)
    | _named("old_mail", old_mail.STORIES)
    | _named("stand_in", stand_ins.STORIES)
    | _named("undecided", undecided.STORIES)
    | _named("chosen_log", chosen_logs.STORIES)
    | _named("proposal", proposals.STORIES)
    | _named("seam", (*seams.STORIES, *seams_two.STORIES))
    | _named("operation", operations.STORIES)
    | _named("registration", registrations.STORIES)
    | _named("replaced_broker", replaced_brokers.STORIES)
    | _named("reader", readers.STORIES)
    | _named("rebuilt_entry", rebuilt_entries.STORIES)
    | _named("refused_batch", refused_batches.STORIES)
    | _named("renamed_disk", renamed_disks.STORIES)
    | _named("retention", retention.STORIES)
    | _named("scrub", scrubbing.STORIES)
    | _named("last_member", last_members.STORIES)
    | _named("unaware_leader", unaware_leaders.STORIES)
    | _named("unwritten_entry", unwritten_entries.STORIES)
    | _named("wholeness", wholeness.STORIES)
    | _named("known_hole", known_holes.STORIES)
)
"""Name → the function that tells it."""


def tell(name: str) -> list[str]:
    """A story's lines, its title first."""
    told = STORIES[name]
    title = " ".join((told.__doc__ or "").split())
    return [title, "", *told().lines]
