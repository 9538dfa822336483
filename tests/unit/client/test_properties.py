"""Java's files of settings."""

import pytest

from tidelog.client.properties import parse_properties, write_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\n\n# c=d\n! e=f\r\n  g   h i\n", {"a": "b", "g": "h i"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=one\\\n    two\nb=1", {"a": "onetwo", "b": "1"}),
        ("a=one\\\\\nb=1", {"a": "one\\", "b": "1"}),
        ("a=x\\\n# y", {"a": "x# y"}),
        ("a\\:b=\\u00e9\\t", {"a:b": "é\t"}),
        ("a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=last\\", {"a": "last"}),
    ],
)
def test_what_java_reads(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_a_line_without_a_name_is_numbered_and_not_shown() -> None:
    with pytest.raises(ValueError, match="line 2 is not of the form name=value") as caught:
        parse_properties("a=b\n=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["plain", " blank before", "a\\b", "two\nlines", "a=b", "#", "ä", ""])
def test_what_is_written_is_read_again(value: str) -> None:
    values = {"sasl.password": value, "a b": value}
    assert parse_properties(write_properties(values)) == values
