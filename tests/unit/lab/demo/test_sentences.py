"""Each mode says what happens and why."""

import pytest

from tidelog.lab.demo.sentences import Situation, sentence
from tidelog.lab.demo.topics import TOPICS

BY_NAME = {topic.name: topic for topic in TOPICS}
FINE = {1: "up", 2: "up", 3: "up"}
DEAD_LEADER = FINE | {1: "killed"}
DEAD_BACKUP = FINE | {2: "frozen"}
CUT_LEADER = FINE | {1: "isolated"}
CUT_BACKUP = FINE | {2: "isolated"}
ONE_LEFT = {1: "killed", 2: "frozen", 3: "up"}


@pytest.mark.parametrize(
    ("topic", "now", "words"),
    [
        ("isr", Situation(1, (1, 2, 3), 0, FINE), "at least 2 copies"),
        ("quorum", Situation(1, (1, 2, 3), 0, FINE), "a majority has it on disk"),
        ("asynchronous", Situation(1, (1, 2), 0, FINE), "one copy"),
        ("isr", Situation(2, (2, 3), 0, FINE), "Broker 1 is back and catches up"),
        ("isr", Situation(-1, (1, 2, 3), 2, DEAD_LEADER), "the controllers appoint"),
        ("quorum", Situation(-1, (1, 2, 3), 2, DEAD_LEADER), "vote for a new one, without controllers"),
        ("isr", Situation(2, (2, 3), 2, DEAD_LEADER), "Broker 2 leads now"),
        (
            "isr",
            Situation(2, (2, 3), 0, DEAD_LEADER),
            "2 replicas are in sync and 2 are needed, so writes go on",
        ),
        ("quorum", Situation(2, (2, 3), 0, DEAD_LEADER), "a majority, so writes go on"),
        ("asynchronous", Situation(2, (1, 2), 2, DEAD_LEADER), "No backup takes over by itself"),
        ("double-write", Situation(1, (1, 2), 2, DEAD_BACKUP), "needs both copies, so writes are refused"),
        ("asynchronous", Situation(1, (1,), 0, DEAD_BACKUP), "one copy is enough"),
        ("asynchronous", Situation(2, (1, 2), 2, DEAD_LEADER), "The primary, broker 1, is dead."),
        ("asynchronous", Situation(2, (1, 2), 2, DEAD_LEADER), "for the primary, and broker 2 serves reads."),
        ("asynchronous", Situation(-1, (1, 2), 2, DEAD_LEADER), "writes wait for the primary."),
        ("asynchronous", Situation(1, (1, 2), 0, FINE), "Both replicas are in sync"),
        ("double-write", Situation(1, (1, 2), 2, DEAD_BACKUP), "The backup, broker 2, is frozen."),
        ("isr", Situation(1, (1, 2), 0, FINE | {3: "returning"}), "Broker 3 is on its way back; 2 replicas"),
        ("double-write", Situation(1, (1, 2), 2, FINE), "about to try once more"),
        ("isr", Situation(-1, (3,), 2, ONE_LEFT), "less than 2 in sync: writes are refused, not lost"),
        ("quorum", Situation(-1, (3,), 2, ONE_LEFT), "no majority"),
        ("isr", Situation(1, (1, 2, 3), 2, DEAD_BACKUP), "still counts as in sync: writes wait"),
        ("isr", Situation(-1, (1, 2, 3), 2, CUT_LEADER), "it cannot acknowledge what the others lack"),
        (
            "isr",
            Situation(2, (2, 3), 0, CUT_LEADER),
            "cut off from the other brokers; 2 replicas are in sync",
        ),
        ("quorum", Situation(-1, (1, 2, 3), 2, CUT_LEADER), "cut off from the majority"),
        ("quorum", Situation(2, (2, 3), 0, CUT_LEADER), "cut off from the other brokers; the other two"),
        ("asynchronous", Situation(2, (1, 2), 0, CUT_LEADER), "goes on for clients that reach it"),
        ("asynchronous", Situation(2, (1, 2), 2, CUT_LEADER), "this one asks the other side"),
        ("asynchronous", Situation(1, (1,), 0, CUT_BACKUP), "one copy is enough here"),
        ("double-write", Situation(2, (1, 2), 0, CUT_LEADER), "what it acknowledged is on its disk"),
        ("double-write", Situation(2, (1, 2), 2, CUT_LEADER), "needs both copies, so writes are refused"),
        (
            "double-write",
            Situation(1, (1, 2), 2, CUT_BACKUP),
            "The backup, broker 2, is cut off from the other",
        ),
    ],
)
def test_words(topic: str, now: Situation, words: str) -> None:
    assert words in sentence(BY_NAME[topic], now)
