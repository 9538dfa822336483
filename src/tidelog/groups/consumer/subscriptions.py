"""The subscribed topics of a group's members, and whether those have changed.

Subscribed topics need not exist yet. Regular expressions are matched against all topics except the internal
ones (a group that reads ``__consumer_offsets`` would read its own commits), and those that the member may not
describe. The result is a record of the group. After a change of the cluster only new topics are matched,
after a change of the access rules all of them. The members of a group share the result, so a group should
have one principal.
"""

from collections.abc import Iterator
from hashlib import blake2b
from uuid import UUID

from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.records import MemberRecord, RecordKind, RegexRecord
from tidelog.groups.consumer.view import GroupContext, Topics

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


def topic_ids(group: ConsumerGroup, member: MemberRecord, topics: Topics) -> frozenset[UUID]:
    """A member's subscribed topics that exist."""
    known = topics.topics
    return frozenset(known[name].topic_id for name in group.topic_names(member) if name in known)


def resolve(group: ConsumerGroup, view: GroupContext) -> bool:
    """Resolve the regular expressions again; returns whether subscriptions changed."""
    wanted = {member.regex for member in group.members.values() if member.regex}
    for pattern in group.regexes.keys() - wanted:
        group.put(RecordKind.REGEX, pattern, None)
    rules = view.matches.rules
    if rules is None and group.seen_rules is not None and wanted:
        return False  # Which topics the members may see is known with the next heartbeat.
    seen, group.seen_topics = group.seen_topics, view.topics.topics
    outdated = rules is not group.seen_rules  # Members may see other topics than before.
    group.seen_rules = rules
    if not wanted:
        return False
    names = view.topics.topics.keys()
    fresh = names - seen.keys() - INTERNAL_TOPICS
    changed = False
    for pattern in sorted(wanted):
        known = group.regexes.get(pattern)
        if known is None or outdated:
            matched = set(view.matches.matching(pattern, names - INTERNAL_TOPICS))
        else:
            matched = names & set(known.topics) | set(view.matches.matching(pattern, fresh))
        topics = tuple(sorted(matched))
        if known is None or known.topics != topics:
            group.put(RecordKind.REGEX, pattern, RegexRecord(topics, group.epoch, view.now.wall_ms))
            changed = True
    return changed


def unmatched(
    group: ConsumerGroup, new: str | None, topics: Topics, rules: object = None
) -> Iterator[tuple[str, str]]:
    """What :func:`resolve` will match: expressions and names. ``new``: of a member that is not known yet."""
    known, seen = [*group.regexes], group.seen_topics
    if new and new not in known:
        yield from ((new, name) for name in topics.topics.keys() - INTERNAL_TOPICS)
    if known and rules is not None and rules is not group.seen_rules:
        names = topics.topics.keys() - INTERNAL_TOPICS
        yield from ((pattern, name) for pattern in known for name in names)
    elif known and seen is not topics.topics:
        fresh = topics.topics.keys() - seen.keys() - INTERNAL_TOPICS
        yield from ((pattern, name) for pattern in known for name in fresh)


def metadata_hash(group: ConsumerGroup, topics: Topics) -> int:
    """A number that changes when a subscribed topic is created, deleted, recreated or grows."""
    names = {name for member in group.members.values() for name in group.topic_names(member)}
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        topic = topics.topics.get(name)
        if topic is not None:
            digest.update(f"{name}/{topic.topic_id.hex}/{len(topic.partitions)};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
