"""Keys are mapped to partitions as in Kafka."""

import pytest

from tidelog.broker.coordinators.keys import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("group", 98629247),
        ("ünïcode", -609351766),
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_keys_are_hashed_as_in_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_every_key_has_a_partition() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("hello", 50) == 22
    assert {partition_of(f"group-{number}", 50) for number in range(2000)} == set(range(50))
