"""Bytes of strangers as text."""

import json

import pytest

from tidelog.page.views.payload import decoded, visible


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b"one coffee", "text", "one coffee"),
        ("käffee ☕".encode(), "text", "käffee ☕"),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b'{"a": 1', "text", '{"a": 1'),
        (b"42", "text", "42"),
        (b"\xff\xfe\x00", "hex", "ff fe 00"),
        (b"\x00\x00\x00\x2a", "hex", "00 00 00 2a"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_forms(data: bytes | None, form: str, text: str) -> None:
    found = decoded(data)
    assert (found["form"], found["text"]) == (form, text)


def test_hidden_characters_are_written_out() -> None:
    assert visible("a\x1b[31mb") == "a\\x1b[31mb"
    assert visible("abc\u202efdp.exe") == "abc\\u202efdp.exe"
    assert visible("zero\u200bwidth") == "zero\\u200bwidth"
    assert visible("lines\nand\ttabs stay") == "lines\nand\ttabs stay"


def test_a_long_value_is_cut_between_characters() -> None:
    found = decoded("ä".encode() * 5_000_000, 401)
    assert (found["form"], found["size"], found["cut"], len(found["text"])) == ("text", 10_000_000, True, 401)
    odd = decoded(b"x" + "☕".encode() * 1000, 100)
    assert (odd["form"], odd["cut"]) == ("text", True)


def test_a_deeply_nested_value_is_text() -> None:
    assert decoded(b"[" * 1500)["form"] in ("text", "json")
    assert decoded(json.dumps({"a": [1]}).encode())["form"] == "json"
