"""The series of faults that the bench runs, in its shortest form: every topic is accounted for."""

import pytest
from bench.cases import fault_series
from bench.lineup import Options

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


@pytest.mark.timeout(300)
def test_a_short_series_of_faults_loses_nothing() -> None:
    gaps, whole, records = fault_series.run(Options(faults=3, seed=11))
    assert len(gaps.rows) == 3 * len(fault_series.TOPICS)
    assert [row["fault"] for row in whole.rows] == [fault.name for fault in fault_series.FAULTS[:3]]
    assert all(row["acknowledged"] > 0 and not row["failed"] for row in records.rows)
    assert [check.verdict for check in records.checks] == ["ok"] * 4, records.notes
