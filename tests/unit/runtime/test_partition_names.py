"""Log lines name partitions as operators know them."""

import logging
from uuid import UUID

import pytest

from tidelog.runtime.partition_names import PartitionNames

KNOWN, UNKNOWN = UUID(int=1), UUID(int=2)


def line(text: str, *arguments: object) -> str:
    record = logging.LogRecord("tidelog", logging.INFO, "", 0, text, arguments, None)
    assert PartitionNames(lambda: {KNOWN: "orders"}).filter(record)
    return record.getMessage()


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("%s: truncating from %s to %s", ((KNOWN, 3), 9, 7), "orders-3: truncating from 9 to 7"),
        ("%s: damaged", ((KNOWN, 0),), "orders-0: damaged"),
        ("%s: damaged", ((UNKNOWN, 0),), f"{UNKNOWN}-0: damaged"),
        ("%s listens on %s", (1, ("host", 9092)), "1 listens on ('host', 9092)"),
        ("stopping", (), "stopping"),
    ],
)
def test_keys_become_names(text: str, arguments: tuple[object, ...], said: str) -> None:
    assert line(text, *arguments) == said
