"""Verdicts from figures."""

import pytest
from msgspec.structs import replace

from tidelog.lab.experiment.model import Checks
from tidelog.lab.promise import UNTIL_DECIDED, Hit, Setting, promise
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Figures, Latency, Round
from tidelog.lab.verdict import Judgement, judge, overall
from tidelog.planner.outages import CLIENTS
from tidelog.planner.promises import EXAMPLES

FINE = Figures(acknowledged=1000, received=1000, redundant_after_s=0.5, writes_stood_still_s=0.2)
KILL = Hit("kill", (1,), (), 1, 0.0, 3.0)
POWER = Hit("power-failure", (1, 2, 3), (), 1, 0.0, 3.0)
ISR = Setting(EXAMPLES["isr"], (1, 2, 3), (1, 2, 3), (1, 2, 3))


def judged(hit: Hit, figures: Figures, setting: Setting = ISR, checks: Checks | None = None) -> Judgement:
    return judge(setting, promise(setting, [hit], 3.0), [hit], figures, checks or Checks())


def test_nothing_lost_and_a_short_pause_is_kept() -> None:
    found = judged(KILL, FINE)
    assert found.verdict == KEPT
    assert "nothing lost of 1,000 acknowledged records" in found.sentence


@pytest.mark.parametrize(
    ("figure", "value", "words"),
    [
        ("lost", 3, "3 acknowledged records lost"),
        ("vanished", 1, "1 record read by a consumer and gone later"),
        ("torn_transactions", 2, "2 transactions visible in part"),
        ("skipped", 1, "1 record skipped by a consumer group"),
        ("lost_commits", 1, "1 committed offset taken back"),
        ("doubled", 1, "1 record there twice"),
        ("disordered", 4, "4 records out of order"),
        ("misplaced", 1, "1 record at another offset than acknowledged"),
        ("writes_stood_still_s", 2.5, "no write was acknowledged for 2.5 s, and 2.0 s were allowed"),
        ("reads_stood_still_s", 30.0, "nothing was read for 30.0 s"),
        ("unserved_reads_s", 2.5, "no broker served reads for 2.5 s, and 2.0 s were allowed"),
        ("redundant_after_s", None, "not all replicas came back in sync"),
        ("acknowledged", 0, "no write was acknowledged at all"),
    ],
)
def test_what_is_ruled_out_is_broken(figure: str, value: float | None, words: str) -> None:
    found = judged(KILL, replace(FINE, **{figure: value}))
    assert found.verdict == BROKEN
    assert words in found.sentence


def test_the_clients_own_waiting_does_not_count() -> None:
    slow = replace(FINE, writes_stood_still_s=2.5, client_back_off_s=1.0)
    assert judged(KILL, slow).verdict == KEPT


def test_writes_that_do_not_come_back_are_broken() -> None:
    found = judge(ISR, promise(ISR, [POWER], 3.0), [POWER], FINE, came_back=False)
    assert found.verdict == BROKEN
    assert "within 30 s after the fault" in found.sentence


def test_a_client_whose_broker_answers_has_little_time_of_its_own() -> None:
    """It waits for what its broker tells it: a broker that keeps its clients is not available to them."""
    full, dead = Hit("full-disk", (1,), (), 1, 0.0, 10.0), Hit("freeze", (1,), (), 1, 0.0, 10.0)
    slow = replace(FINE, writes_stood_still_s=8.0, client_back_off_s=7.5)
    assert judged(dead, slow).verdict == KEPT
    found = judged(full, slow)
    assert found.verdict == BROKEN
    assert "no write was acknowledged for 6.0 s, and 3.5 s were allowed" in found.sentence
    cut = Hit("cut", (1,), (2, 3), 1, 0.0, 10.0)
    assert judged(cut._replace(second=(2, 3, CLIENTS)), slow).verdict == KEPT
    assert judged(cut, slow).verdict == BROKEN


def judged_when_late(late_s: float, stall_s: float) -> Judgement:
    figures = replace(FINE, writes_stood_still_s=stall_s, before=Latency(p999=10_000.0))
    return judge(ISR, promise(ISR, [KILL], 3.0), [KILL], figures, late_s=late_s)


def test_a_busy_machine_gets_more_time_but_not_any() -> None:
    """Slow brokers do not: how long writes took before the fault does not count."""
    assert judged_when_late(0.0, 2.5).verdict == BROKEN
    assert judged_when_late(0.1, 2.5).verdict == BROKEN
    assert "0.6 s of that because the machine was busy" in judged_when_late(0.2, 2.5).sentence
    assert judged_when_late(60.0, 3.9).verdict == KEPT
    assert judged_when_late(60.0, 4.1).verdict == BROKEN


def test_where_an_operator_has_to_decide_writes_may_stay_away() -> None:
    primary = Setting(EXAMPLES["async"], (1, 2), (1, 2, 3), (1, 2, 3))
    wiped = Hit("wipe", (1,), (), 1, 0.0, 3.0)
    promised = promise(primary, [wiped], 3.0)
    assert UNTIL_DECIDED in promised.sentences
    gone = replace(FINE, writes_stood_still_s=90.0, redundant_after_s=None)
    found = judge(primary, promised, [wiped], gone, came_back=False)
    assert found.verdict == KEPT and "until an operator decides" in found.sentence
    both = Setting(EXAMPLES["double"], (1, 2), (1, 2, 3), (1, 2, 3))
    assert judge(both, promise(both, [wiped], 3.0), [wiped], gone, came_back=False).verdict == BROKEN


class TestAllowedLoss:
    @pytest.mark.parametrize("figure", ["lost", "vanished", "torn_transactions", "skipped", "lost_commits"])
    def test_what_the_settings_allow_is_no_breach(self, figure: str) -> None:
        assert judged(POWER, replace(FINE, **{figure: 7})).verdict == ALLOWED

    def test_the_sentence_counts_and_names_the_reason(self) -> None:
        found = judged(POWER, replace(FINE, lost=7))
        assert "7 records of 1,000" in found.sentence
        assert "lose power at once" in found.sentence

    @pytest.mark.parametrize("figure", ["doubled", "disordered", "misplaced"])
    def test_order_is_not_part_of_it(self, figure: str) -> None:
        assert judged(POWER, replace(FINE, lost=7, **{figure: 1})).verdict == BROKEN

    def test_quorum_allows_none(self) -> None:
        quorum = ISR._replace(terms=EXAMPLES["quorum"])
        assert judged(POWER, replace(FINE, lost=1), quorum).verdict == BROKEN
        assert judged(POWER, replace(FINE, lost_commits=1), quorum).verdict == ALLOWED

    def test_nothing_lost_is_kept_although_it_was_allowed(self) -> None:
        assert judged(POWER, FINE).verdict == KEPT


def test_without_idempotence_twice_and_out_of_order_are_not_judged() -> None:
    plain = ISR._replace(is_idempotent=False)
    assert judged(KILL, replace(FINE, doubled=5, disordered=5, misplaced=5), plain).verdict == KEPT
    assert judged(KILL, replace(FINE, lost=1), plain).verdict == BROKEN


def test_after_damage_to_a_disk_redundancy_is_not_judged() -> None:
    full = Hit("full-disk", (1,), (), 1, 0.0, 3.0)
    assert judged(full, replace(FINE, redundant_after_s=None)).verdict == KEPT
    assert judged(POWER, replace(FINE, redundant_after_s=None)).verdict == BROKEN


def test_writes_that_may_stop_must_come_back() -> None:
    primary = Setting(EXAMPLES["async"], (1, 2), (1, 2, 3), (1, 2, 3))
    assert judged(KILL, replace(FINE, writes_stood_still_s=5.0), primary).verdict == KEPT
    assert judged(KILL, replace(FINE, writes_stood_still_s=60.0), primary).verdict == BROKEN


@pytest.mark.parametrize(
    ("checks", "figures"),
    [
        (Checks(lost_max=5), replace(FINE, lost=7)),
        (Checks(writes_stand_still_max_s=0.1), FINE),
        (Checks(reads_stand_still_max_s=1.0), replace(FINE, reads_stood_still_s=1.5)),
    ],
)
def test_checks_of_the_experiment_are_stricter(checks: Checks, figures: Figures) -> None:
    assert judged(POWER, figures).verdict != BROKEN
    found = judged(POWER, figures, checks=checks)
    assert found.verdict == BROKEN
    assert "the experiment allows" in found.sentence


class TestRounds:
    def rounds(self, *verdicts: str) -> list[Round]:
        return [
            Round(number=number, verdict=verdict, figures=FINE, sentence=f"Round {number}.")
            for number, verdict in enumerate(verdicts, 1)
        ]

    def test_none_is_not_run(self) -> None:
        assert overall([])[0] == NOT_RUN

    def test_a_cell_is_as_bad_as_its_worst_round(self) -> None:
        assert overall(self.rounds(KEPT, BROKEN, ALLOWED)) == (BROKEN, "Round 2. (1 of 3 rounds)")
        assert overall(self.rounds(KEPT, ALLOWED, ALLOWED))[1].endswith("(2 of 3 rounds)")
        assert overall(self.rounds(KEPT, KEPT)) == (KEPT, "Round 1. (worst of 2 rounds)")


def test_a_loss_in_a_partition_that_may_lose_nothing_is_broken() -> None:
    lost = replace(FINE, lost=3, harmed=(0, 2))
    promised = promise(ISR, [POWER], 3.0)
    assert judge(ISR, promised, [POWER], lost, safe={1}).verdict == ALLOWED
    found = judge(ISR, promised, [POWER], lost, safe={1, 2})
    assert found.verdict == BROKEN
    assert "records of partition 2 are missing, and only other partitions may lose some" in found.sentence


def test_a_broker_that_ended_by_itself_is_broken() -> None:
    found = judge(ISR, promise(ISR, [KILL], 3.0), [KILL], FINE, ended=(2,))
    assert found.verdict == BROKEN and "broker 2 ended by itself" in found.sentence


def test_rounds_that_were_not_run_are_told() -> None:
    (one,) = [Round(number=1, verdict=KEPT, figures=FINE, sentence="Kept.")]
    assert overall([one], 3) == (KEPT, "Kept. (1 round; only 1 of 3 rounds were run)")
    assert overall([one], 1) == (KEPT, "Kept. (1 round)")


def test_a_group_whose_broker_answers_has_less_time() -> None:
    """A broker with a full disk once kept its consumers for as long as the disk was full."""
    full, dead = Hit("full-disk", (1,), (), 1, 0.0, 10.0), Hit("freeze", (1,), (), 1, 0.0, 10.0)
    waited = replace(FINE, reads_stood_still_s=9.4)
    assert judged(dead, waited).verdict == KEPT
    assert "nothing was read for 9.4 s, and 8.5 s were allowed" in judged(full, waited).sentence
