"""Options that say how to decode values, without a format."""

import pytest

pytest.importorskip("pyspark")

from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.decoding import decoding
from tidelog.cli.pipeline.table_options import chosen_format
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines import Archive, Topics

NOTHING: dict[str, object] = {
    "schema": None, "registry": None, "registry_options": [], "subject": None, "schema_ids": [],
    "message": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--schema", {"schema": "id long"}),
        ("--registry", {"registry": "http://127.0.0.1:1"}),
        ("--registry-option", {"registry_options": ["max.retries=1"]}),
        ("--subject", {"subject": "orders-value"}),
        ("--schema-id", {"schema_ids": [1]}),
        ("--message", {"message": "Order"}),
    ],
)
def test_an_option_that_would_say_nothing_is_refused(option: str, given: dict[str, object]) -> None:
    with pytest.raises(CommandFailed, match=f"^{option} .*needs --format"):
        decoding("orders", None, **(NOTHING | given))  # type: ignore[arg-type]
    assert decoding("orders", None, **NOTHING) is None  # type: ignore[arg-type]


def test_values_are_dropped_only_if_something_is_left_of_them() -> None:
    with pytest.raises(OptionError, match="leave --drop-value out"):
        Archive(Topics("127.0.0.1:1", "orders"), "/data/orders", keeps_value=False)


def test_two_table_formats_exclude_each_other() -> None:
    assert chosen_format(None, delta=False) == "parquet"
    assert chosen_format(None, delta=True) == chosen_format("delta", delta=True) == "delta"
    with pytest.raises(CommandFailed, match="exclude each other"):
        chosen_format("iceberg", delta=True)
