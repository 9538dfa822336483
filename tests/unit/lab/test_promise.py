"""What a fault may cost, said beforehand: the truth table of faults and modes, with times."""

import pytest

from tidelog.lab.promise import MARGIN_S, RECOVERY_S, RETURN_S, Hit, Promise, Setting, promise
from tidelog.planner.outages import CLIENTS
from tidelog.planner.promises import EXAMPLES, Terms

MODES = ("isr", "async", "double", "quorum")
A, B, C = 1, 2, 3
ALL = (A, B, C)


def setting(mode: str, **more: object) -> Setting:
    replicas = ALL if EXAMPLES[mode].replicas == 3 else (A, B)
    return Setting(EXAMPLES[mode], replicas, ALL, ALL)._replace(**more)  # type: ignore[arg-type]


def of(mode: str, *hits: Hit) -> Promise:
    return promise(setting(mode), hits, 8.0)


def hit(fault: str, *brokers: int, second: tuple[int, ...] = (), start: float = 0.0, end: float = 5.0) -> Hit:
    return Hit(fault, brokers, second, A, start, end)


# Fault; in isr, async, double and quorum: w writes go on, l records may be lost.
TABLE = [
    ("A killed", hit("kill", A), "w . . w"),
    ("B killed", hit("kill", B), "w w . w"),
    ("B and C killed", hit("kill", B, C), ". w . ."),
    ("A and B killed", hit("kill", A, B), ". . . ."),
    ("all killed", hit("kill", A, B, C), ". . . ."),
    ("A frozen", hit("freeze", A), "w . . w"),
    ("A cut off, clients reach it", hit("cut", A, second=(B, C)), "w w . w"),
    ("A cut off from everything", hit("cut", A, second=(B, C, CLIENTS)), "w . . w"),
    ("power failure of A", hit("power-failure", A), "w l . w"),
    ("power failure of B", hit("power-failure", B), "w w . w"),
    ("power failure of all", hit("power-failure", A, B, C), "l l l ."),
    ("A's disk wiped", hit("wipe", A), "w l . w"),
    ("B's disk wiped", hit("wipe", B), "w w . w"),
    ("B slow", hit("slow-disk", B), "w w . w"),
    ("A slow", hit("slow-disk", A), ". . . ."),
    ("slow line between A and B", hit("delay", A, second=(B,)), "w w . w"),
    ("slow lines between A and all others", hit("delay", A, second=(B, C)), ". w . ."),
    ("slow lines between A and clients", hit("delay", A, second=(CLIENTS,)), ". . . ."),
    ("A's disk full", hit("full-disk", A), "w . . w"),
    ("A's disk fails", hit("failing-disk", A), "w . . w"),
    ("a flipped bit on A", hit("flipped-bit", A, end=0.0), "w l . w"),
    ("A's clock is set", hit("clock-jump", A), "w w w w"),
    ("a change of mode", hit("change-mode", end=0.0), "w w w w"),
]


@pytest.mark.parametrize(("name", "fault", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table(name: str, fault: Hit, expected: str) -> None:
    found = [of(mode, fault) for mode in MODES]
    shown = ["l" if each.loss_reason else "w" if each.writes_go_on else "." for each in found]
    assert " ".join(shown) == expected


class TestTimes:
    def test_a_broker_that_ended_is_noticed_without_a_timeout(self) -> None:
        assert of("isr", hit("kill", A)).writes_s == MARGIN_S

    def test_one_that_is_silent_is_noticed_after_its_session(self) -> None:
        found = of("quorum", hit("freeze", A))
        assert found.writes_s == 1.5 + MARGIN_S
        assert "broker.session.timeout.ms is 1.5 s" in found.sentences[2]

    def test_a_target_that_does_not_notice_ends_waits_for_the_session(self) -> None:
        slow = setting("isr", notices_ends=False, session_s=9.0)
        assert promise(slow, [hit("kill", A)], 8.0).writes_s == 9.0 + MARGIN_S

    def test_an_in_sync_set_waits_for_a_late_follower(self) -> None:
        found = of("isr", hit("slow-disk", B))
        assert found.writes_s == 10.0 + MARGIN_S
        assert "replica.lag.time.max.ms" in found.sentences[2]
        assert of("quorum", hit("slow-disk", B)).writes_s == 1.5 + MARGIN_S

    def test_a_leader_that_is_given_up_waits_for_nobody(self) -> None:
        assert of("isr", hit("cut", A, second=(B, C))).writes_s == 1.5 + MARGIN_S

    def test_writes_that_stop_come_back_some_time_after_the_fault(self) -> None:
        assert of("async", hit("kill", A, end=5.0)).writes_s == 5.0 + RETURN_S + RECOVERY_S

    def test_a_fault_without_an_end_lasts_until_the_end(self) -> None:
        frozen = Hit("freeze", (A,), (), A, 1.0, None)
        assert of("async", frozen).writes_s == 7.0 + RECOVERY_S

    def test_faults_that_overlap_count_together(self) -> None:
        one, two = hit("kill", A, end=3.0), hit("kill", B, start=4.0, end=6.0)
        assert not of("quorum", one, two).writes_go_on  # A is just starting.
        assert of("quorum", one, two._replace(start_s=3.0 + RETURN_S, end_s=9.0)).writes_go_on


class TestReads:
    def test_they_go_on_while_a_replica_lives(self) -> None:
        assert all(of(mode, hit("kill", A)).reads_go_on for mode in MODES)
        # Two of three take the controllers' majority with them. That they ended is known, silence is not.
        assert [of(mode, hit("kill", A, B)).reads_go_on for mode in MODES] == [True, False, False, True]
        assert not any(of(mode, hit("freeze", A, B)).reads_go_on for mode in MODES)
        apart = [promise(setting(mode, voters=(7, 8, 9)), [hit("kill", A, B)], 8.0) for mode in MODES]
        assert [each.reads_go_on for each in apart] == [True, False, False, True]


class TestLoss:
    def test_the_reason_is_the_documented_one(self) -> None:
        assert of("async", hit("wipe", A)).loss_reason.startswith("the primary is lost for good")
        assert of("async", hit("power-failure", A)).loss_reason.startswith("the primary loses power")
        assert "lose power at once" in of("isr", hit("power-failure", A, B, C)).loss_reason

    def test_flushed_records_survive(self) -> None:
        synced = setting("isr", terms=Terms("isr", 3, synced=True))
        assert not promise(synced, [hit("power-failure", A, B, C)], 8.0).loss_reason

    def test_acks_1_is_lost_with_the_leader_only_in_isr(self) -> None:
        found = [promise(setting(mode, acks="1"), [hit("kill", A)], 8.0).loss_reason for mode in MODES]
        assert [bool(reason) for reason in found] == [True, False, False, False]
        assert not promise(setting("isr", acks="1"), [hit("kill", B)], 8.0).loss_reason

    def test_acks_0_promises_nothing(self) -> None:
        assert promise(setting("quorum", acks="0"), [hit("kill", B)], 8.0).loss_reason

    def test_unclean_elections_may_lose(self) -> None:
        unclean = setting("isr", terms=Terms("isr", 3, unclean=True))
        assert promise(unclean, [hit("kill", A, B)], 8.0).loss_reason
        assert not promise(unclean, [hit("kill", B)], 8.0).loss_reason

    def test_committed_offsets_are_in_a_topic_that_is_not_synced(self) -> None:
        assert of("quorum", hit("power-failure", A, B, C)).commits_may_be_lost
        assert not of("quorum", hit("power-failure", A)).commits_may_be_lost
        assert not of("quorum", hit("kill", A, B, C)).commits_may_be_lost


def test_sentences_without_idempotence_say_so() -> None:
    found = promise(setting("isr", is_idempotent=False), [hit("kill", A)], 8.0)
    assert "at least once" in found.sentences[1]
