"""Damage in old segments that nobody reads is found by the scrubber, also among thousands of segments."""

import pytest

from tidelog.sim import run as simulation
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.overrides import parse
from tidelog.sim.run import run

MODE, SEED = "isr", 496692631
PLAN = (  # every batch a segment of its own
    'settings=[["log.segment.bytes",1024]]',
    "producers=[[0,0,false],[1,-1,true],[2,-1,false]]",
    "weather=[0.0,0.0,0.0,400.0]",
    "faults_ms=11291.7",
    "luck=3",
    "administrated=false",
    "operations=[]",
    "perturbed=[]",
)
WANTED = {**dict(parse(MODE, override) for override in PLAN), "only_faults": frozenset({10})}


def test_damage_among_many_segments_is_found_in_time() -> None:
    result = run(MODE, SEED, **WANTED)
    assert any("fault 10: misdirected write 1 data/" in line for line in result.trace)


@pytest.mark.slow
def test_a_scrubber_at_its_usual_pace_is_too_slow_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(simulation.SETTINGS, "log.scrub.bytes.per.second")
    with pytest.raises(Violation, match="a healthy cluster is not whole again"):
        run(MODE, SEED, **WANTED)
