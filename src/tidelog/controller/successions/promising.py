"""Marks what a change newly promises and is not confirmed yet; see :mod:`tidelog.controller.promises`."""

import msgspec

from tidelog.config.modes import PRIMARY_BACKUP
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions.steps import Rules

AS_ASKED = 0


def promised(before: PartitionImage, old: Rules, after: PartitionImage, new: Rules) -> PartitionImage:
    """The partition after a change, marked with what is promised from now on and not confirmed yet."""
    syncs = after.mode in new.synced_modes
    more_syncs = syncs and before.mode not in old.synced_modes
    unsynced = tuple(each for each in before.unsynced if syncs and each in after.replicas)
    if more_syncs:
        unsynced = after.replicas
    # An added replica may have been removed earlier, and not know that yet, nor the setting: it returns with
    # its old log, of which not everything is synced.
    brought = tuple(each for each in after.replicas if each not in before.replicas and each not in unsynced)
    if syncs:
        unsynced += brought
    copies = _copies(before, old, after, new)
    # Also if as few copies were enough before: a confirmation from then does not cover what came in between.
    more_copies = copies != AS_ASKED and (copies != before.copies or asked(after, new) > asked(before, old))
    if (unsynced, copies) == (after.unsynced, after.copies) and not more_syncs and not more_copies:
        return after
    since = after.synced_since
    if before.unsynced and not unsynced:
        since = after.leader_epoch  # The last replica that had not confirmed was removed.
    return msgspec.structs.replace(
        after,
        unsynced=unsynced,
        copies=copies,
        promise_epoch=after.promise_epoch + (more_syncs or more_copies or (syncs and bool(brought))),
        synced_since=since,
    )


def _copies(before: PartitionImage, old: Rules, after: PartitionImage, new: Rules) -> int:
    if after.mode != PRIMARY_BACKUP:
        return AS_ASKED
    wanted = asked(after, new)
    # Where every member holds everything that is committed, and so does every eligible replica, there are as
    # many copies as both together.
    complete = {*before.in_sync, *before.eligible}
    had = asked(before, old) if before.mode == PRIMARY_BACKUP else len(complete)
    fewest = min(had, before.copies or had)
    return fewest if fewest < wanted else AS_ASKED


def asked(partition: PartitionImage, rules: Rules) -> int:
    """How many copies an acknowledgement requires at least, under all circumstances."""
    return 1 if rules.degrades else min(rules.min_in_sync, len(partition.replicas))
