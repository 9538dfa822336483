"""Which topics a restore accepts."""

import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.restore_targets import check


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
