"""``tidelog plan --prove`` from the question to the table: real brokers, real faults.

On request, because it takes a minute with three brokers and three minutes with five, and counts seconds of
downtime, for which the machine must do nothing else: ``TIDELOG_TEST_EXERCISE=1``.
"""

import json
import os

import pytest

from tidelog.cli.app import run
from tidelog.cli.plan import proving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("TIDELOG_TEST_EXERCISE"), reason="on request: TIDELOG_TEST_EXERCISE=1"
    ),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("brokers", [3, 5])
def test_the_exercise(
    brokers: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DLedger with 50 queues: the isr settings with the same promises survive the same faults.

    The faults last for a shorter time than people see them, and the loads are smaller.
    """
    monkeypatch.setattr(proving, "LASTS_S", 3.0)
    monkeypatch.setattr(proving, "RATE", 60)
    size = ["--brokers", str(brokers), "--replicas", str(brokers)]
    assert run(["plan", "--from", "dledger", *size, "--queues", "50", "--prove", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    survived, majority = brokers // 2, brokers // 2 + 1
    assert f"--partitions 50 --replicas {brokers}" in found["isr_command"]
    assert f"min.insync.replicas={majority}" in found["isr_command"]
    by_fault: dict[str, list[dict[str, object]]] = {}
    for row in found["proof"]:
        by_fault.setdefault(row["fault"], []).append(row)
    dead, more_dead, disks, power = by_fault
    assert dead.startswith(f"{survived} of {brokers} brokers")
    assert more_dead.startswith(f"{majority} of {brokers} brokers")
    assert "disk" in disks
    assert power == "all brokers lose power at once"
    for fault, both in by_fault.items():
        assert len(both) == 2, both  # quorum and isr
        for row in both:
            assert row["verdict"] == "kept" or (fault == power and row["verdict"] == "allowed loss"), row
            assert row["lost"] == 0 or fault == power, row
            assert isinstance(row["acknowledged"], int)
            assert row["acknowledged"] > 50, row
