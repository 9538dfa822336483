"""What became of every record: the figures of consistency.

Owns what each of them means.

================= =========================================================================================
lost              acknowledged, and not there at the end
unacknowledged    there, though it failed, was aborted, or its producer crashed before the answer
doubled           there at more than one offset; each offset too many counts
disordered        there, in the order of offsets, after a later record of the same producer and partition
misplaced         there, but at another offset than acknowledged
vanished          read by a consumer group, and not there at the end. For a group that also reads open
                  transactions, records of transactions that were not committed do not count
torn              a transaction of which some records are there and some are not, or that is there though it
                  was aborted
skipped           acknowledged and there, but a group that read records before and after it never read it
lost commits      offsets of a group that the cluster confirmed, and for which it returned a lower one later
================= =========================================================================================
"""

from collections import defaultdict
from typing import NamedTuple

from tidelog.lab.account import EXAMPLES_MAX, Account, Verdict, together
from tidelog.lab.figures.events import TopicEvents
from tidelog.lab.history import Event

RecordId = tuple[int, str, int]  # partition, producer, sequence


class Consistency(NamedTuple):
    verdict: Verdict
    failed: int
    unacknowledged: int
    vanished: int
    torn_transactions: int
    skipped: int
    lost_commits: int
    harmed: tuple[int, ...]  # partitions in which records are lost, gone, skipped or missing in a transaction
    examples: tuple[str, ...]


def consistency(events: TopicEvents) -> Consistency:
    there = {_id(event) for event in events.of("received")}
    acknowledged = {_id(event) for event in events.of("acknowledged")}
    accounts = _accounts(events)
    verdict = together(accounts.values())
    vanished = _vanished(events, there)
    torn, missing = _torn(events, there)
    passed_over = skipped(events)
    taken_back = lost_commits(events)
    examples = [
        *verdict.examples,
        *(f"record {one[2]} of {one[1]} in partition {one[0]} was read and is gone" for one in vanished),
        *(f"transaction {number} of {producer} is there in part" for producer, number in torn),
        *(
            f"group {group} did not read record {one[2]} of {one[1]} in partition {one[0]}"
            for group, one in passed_over
        ),
        *(f"group {one[0]} had committed {one[2]} in partition {one[1]}" for one in taken_back),
    ]
    return Consistency(
        verdict,
        len(events.of("failed", "aborted")),
        len(there - acknowledged),
        len(vanished),
        len(torn),
        len(passed_over),
        len(taken_back),
        tuple(
            sorted(
                {partition for (partition, _), account in accounts.items() if account.lost}
                | {partition for partition, _, _ in (*vanished, *missing, *(one for _, one in passed_over))}
            )
        ),
        tuple(examples[:EXAMPLES_MAX]),
    )


def _id(event: Event) -> RecordId:
    return event.partition or 0, event.producer or "", event.sequence or 0


def _accounts(events: TopicEvents) -> dict[tuple[int, str], Verdict]:
    """By partition and producer."""
    accounts: dict[tuple[int, str], Account] = {}

    def account(event: Event) -> Account:
        key = (event.partition or 0, event.producer or "")
        if key not in accounts:
            accounts[key] = Account(f"{key[1]} in partition {key[0]}")
        return accounts[key]

    for event in events.of("acknowledged"):
        account(event).acknowledged(event.sequence or 0, event.offset)
    # Read again from the same place is no second copy.
    places = {(_id(event), event.offset or 0): event for event in events.of("received")}
    for event in sorted(places.values(), key=lambda event: event.offset or 0):
        account(event).received(event.sequence or 0, event.offset or 0)
    return {key: each.verdict() for key, each in accounts.items()}


def _vanished(events: TopicEvents, there: set[RecordId]) -> list[RecordId]:
    gone = {_id(event) for event in events.of("consumed")} - there
    acknowledged = {_id(event) for event in events.of("acknowledged")}
    transactional = {
        _process(event.producer or "")
        for event in events.of("acknowledged", "failed", "aborted")
        if event.transaction is not None
    }
    # A producer that crashed leaves records without any event: its transaction is aborted by the next one.
    raw = {
        record
        for record in {_id(event) for event in events.of("consumed-raw")} - there
        if record in acknowledged or _process(record[1]) not in transactional
    }
    return sorted(gone | raw)


def _process(producer: str) -> str:
    """``producer-1-1`` of ``producer-1-1.2``, its second incarnation after a crash."""
    return producer.partition(".")[0]


def _torn(events: TopicEvents, there: set[RecordId]) -> tuple[list[tuple[str, int]], list[RecordId]]:
    """The transactions, and the records of them that are not as they should be."""
    records: dict[tuple[str, int], list[RecordId]] = defaultdict(list)
    aborted: set[tuple[str, int]] = set()
    for event in events.of("acknowledged", "failed", "aborted"):
        if event.transaction is None:
            continue
        key = (event.producer or "", event.transaction)
        records[key].append(_id(event))
        if event.kind == "aborted":
            aborted.add(key)
    torn, wrong = [], []
    for key, mine in sorted(records.items()):
        visible = [record for record in mine if record in there]
        if visible and (len(visible) < len(mine) or key in aborted):
            torn.append(key)
            wrong += visible if key in aborted else [record for record in mine if record not in there]
    return torn, wrong


def skipped(events: TopicEvents) -> list[tuple[str, RecordId]]:
    """Group and record of each. Where a group began, and what it had not reached yet, does not count."""
    acknowledged = {_id(event) for event in events.of("acknowledged")}
    places: dict[RecordId, int] = {}
    for event in events.of("received"):
        places[_id(event)] = min(event.offset or 0, places.get(_id(event), event.offset or 0))
    read: dict[tuple[str, int], dict[RecordId, int]] = defaultdict(dict)  # by group and partition
    for event in events.of("consumed", "consumed-raw"):
        read[event.reader or "", event.partition or 0].setdefault(_id(event), event.offset or 0)
    spans = {key: (min(found.values()), max(found.values())) for key, found in read.items()}
    return sorted(
        (group, record)
        for (group, partition), (first, last) in spans.items()
        for record, offset in places.items()
        if record[0] == partition
        and first < offset < last
        and record in acknowledged
        and record not in read[group, partition]
    )


def lost_commits(events: TopicEvents) -> list[tuple[str, int, int]]:
    """Group, partition and offset of each."""
    confirmed: dict[tuple[str, int], set[int]] = defaultdict(set)
    taken_back: set[tuple[str, int, int]] = set()
    for event in events.of("committed", "found"):
        key = (event.reader or "", event.partition or 0)
        if event.kind == "committed":
            confirmed[key].add(event.offset or 0)
            continue
        gone = {offset for offset in confirmed[key] if offset > (event.offset or 0)}
        taken_back.update((*key, offset) for offset in gone)
    return sorted(taken_back)
