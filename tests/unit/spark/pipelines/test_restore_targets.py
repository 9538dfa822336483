"""Which topics a restore accepts."""

import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.restore_targets import check, check_age, is_too_old

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS + 3_600_000  # 2024-10-04, 01:00


def test_partitions_that_are_kept_must_exist() -> None:
    check("orders", 3, 3, None, exists=True, keeps_partitions=True)
    check("orders", 3, 5, None, exists=True, keeps_partitions=True)
    with pytest.raises(
        OptionError, match=r"has 2 partitions, .* partition 2; use `tidelog topic alter orders --p"
    ):
        check("orders", 3, 2, None, exists=True, keeps_partitions=True)
    with pytest.raises(OptionError, match=r"would have 1 partition, .* use --partitions 3, or"):
        check("orders", 3, 1, 1, exists=False, keeps_partitions=True)


def test_by_key_any_number_will_do() -> None:
    check("orders", 3, 1, None, exists=True, keeps_partitions=False)
    check("orders", 3, 1, 1, exists=False, keeps_partitions=False)


def test_the_number_of_an_existing_topic_is_not_changed() -> None:
    check("orders", 1, 2, 2, exists=True, keeps_partitions=True)
    with pytest.raises(OptionError, match="exists and has 2 partitions, not 4; leave out --partitions"):
        check("orders", 1, 2, 4, exists=True, keeps_partitions=True)


def test_records_that_a_topic_would_delete_at_once_are_refused() -> None:
    week = str(7 * DAY_MS)
    old, new = NOW_MS - 8 * DAY_MS, NOW_MS - 6 * DAY_MS
    with pytest.raises(OptionError) as refused:
        check_age("orders", old, week, NOW_MS, exists=True)
    assert "since 2024-09-26, which would be gone again" in str(refused.value)
    assert "`tidelog topic alter orders --set retention.ms=-1`" in str(refused.value)
    assert "date > '2024-09-27'" in str(refused.value)
    with pytest.raises(OptionError, match=r"would delete records .* use --set retention.ms=-1, or"):
        check_age("orders", old, week, NOW_MS, exists=False)
    check_age("orders", new, week, NOW_MS, exists=True)


@pytest.mark.parametrize("retention", ["-1", "", None, "soon"])
def test_without_a_limit_no_record_is_too_old(retention: str | None) -> None:
    assert not is_too_old(0, retention, NOW_MS)
    assert not is_too_old(None, "1", NOW_MS)
    assert is_too_old(0, "1", NOW_MS)
