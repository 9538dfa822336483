"""What is happening to a topic and why, in one sentence. Pure: from what is known to words."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.lab.demo.topics import DemoTopic

STALLED_S = 0.5  # shorter pauses are not worth a word
UP, RETURNING = "up", "returning"
ISOLATED = "isolated"  # from the other brokers; clients still reach it
GONE = {
    "killed": "is dead",
    "frozen": "is frozen",
    "cut off": "is cut off",
    ISOLATED: "is cut off from the other brokers",
}


class Situation(NamedTuple):
    leader: int  # -1: none
    in_sync: tuple[int, ...]
    stalled_s: float  # since the last acknowledgement
    brokers: Mapping[int, str]  # state of each: UP, RETURNING or a key of GONE


def sentence(topic: DemoTopic, now: Situation) -> str:
    missing = [number for number in topic.replicas if now.brokers.get(number, UP) != UP]
    if now.stalled_s < STALLED_S:
        return _goes_on(topic, now, missing)
    if topic.mode == "primary-backup":
        return _primary_waits(topic, now, missing)
    return _no_leader_yet(topic, now, missing)


def _state(number: int, now: Situation) -> str:
    return GONE.get(now.brokers.get(number, UP), "is on its way back")


def _goes_on(topic: DemoTopic, now: Situation, missing: list[int]) -> str:
    if not missing:
        behind = sorted(set(topic.replicas) - set(now.in_sync))
        if behind:
            return f"Broker {behind[0]} is back and catches up; writes go on meanwhile."
        several = "Both" if len(topic.replicas) == 2 else f"All {len(topic.replicas)}"
        return f"{several} replicas are in sync; an acknowledgement means {_copies(topic)}."
    first, state = missing[0], _state(missing[0], now)
    if topic.mode == "quorum":
        return f"Broker {first} {state}; the other two are a majority, so writes go on."
    if topic.mode == "isr":
        return (
            f"Broker {first} {state}; {len(now.in_sync)} replicas are in sync and {topic.copies} are needed, "
            "so writes go on."
        )
    if first == topic.replicas[0]:
        if now.brokers[first] == ISOLATED and topic.copies == 1:
            return (
                f"The primary, broker {first}, {state}, and goes on for clients that reach it: one copy is "
                "enough. The backup gets the rest when it is reached again."
            )
        return f"The primary, broker {first}, {state}; what it acknowledged is on its disk."
    return f"The backup, broker {first}, {state}; one copy is enough here, and it catches up later."


def _primary_waits(topic: DemoTopic, now: Situation, missing: list[int]) -> str:
    primary, backup = topic.replicas[0], topic.replicas[1]
    if primary in missing:
        if now.brokers[primary] == ISOLATED:
            return _isolated_primary(topic, primary, backup)
        reads = f", and broker {backup} serves reads" if now.leader == backup else ""
        return (
            f"The primary, broker {primary}, {_state(primary, now)}. No backup takes over by itself: writes "
            f"wait for the primary{reads}."
        )
    if backup in missing and topic.copies > 1:
        return (
            f"The backup, broker {backup}, {_state(backup, now)}. A write needs both copies, so writes are "
            "refused, not lost."
        )
    return "Both replicas are there again; the client is about to try once more."


def _isolated_primary(topic: DemoTopic, primary: int, backup: int) -> str:
    begin = f"The primary, broker {primary}, {GONE[ISOLATED]}."
    if topic.copies > 1:
        return f"{begin} A write needs both copies, so writes are refused, not lost."
    return (
        f"{begin} It goes on for clients that ask it; this one asks the other side, where writes wait and "
        f"broker {backup} serves reads."
    )


def _no_leader_yet(topic: DemoTopic, now: Situation, missing: list[int]) -> str:
    left = len(topic.replicas) - len(missing)
    if left < topic.copies:
        what = "no majority" if topic.mode == "quorum" else f"less than {topic.copies} in sync"
        return f"{left} of {len(topic.replicas)} replicas is left, {what}: writes are refused, not lost."
    if now.leader < 0 or now.leader in missing:
        if any(now.brokers[number] == ISOLATED for number in missing):
            return _isolated_leader(topic)
        if topic.mode == "quorum":
            return "The leader is gone; the other replicas vote for a new one, without controllers."
        return "The leader is gone; the controllers appoint one of the replicas that are in sync."
    waited = [number for number in missing if number in now.in_sync]
    if waited and topic.mode == "isr":
        return (
            f"Broker {waited[0]} {_state(waited[0], now)} and still counts as in sync: writes wait until it "
            "is taken out of the in-sync replicas."
        )
    return f"Broker {now.leader} leads now; the client finds it at its next try."


def _isolated_leader(topic: DemoTopic) -> str:
    if topic.mode == "quorum":
        return (
            "The leader is cut off from the majority, acknowledges nothing more and steps down; the others "
            "vote for a new one."
        )
    return (
        "The leader is cut off: it cannot acknowledge what the others lack. The controllers appoint one of "
        "those that are in sync."
    )


def _copies(topic: DemoTopic) -> str:
    if topic.mode == "quorum":
        return "a majority has it on disk"
    return "one copy" if topic.copies == 1 else f"at least {topic.copies} copies"
