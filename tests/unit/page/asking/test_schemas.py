"""Schemas from a registry, of which anybody can write numbers."""

import json
from typing import Any

import pytest

from tidelog.page.asking import schemas
from tidelog.page.asking.schemas import Registry

ANSWERS: dict[str, dict[str, Any]] = {
    "/schemas/ids/7": {"schema": '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'},
    "/schemas/ids/8": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/9": {"schema": "syntax", "schemaType": "PROTOBUF"},
    "/schemas/ids/10": {
        "schema": '{"type": "array", "items": "shop.State"}',
        "references": [{"name": "state", "subject": "the/state", "version": 1}],
    },
    "/subjects/the%2Fstate/versions/1": {
        "schema": '{"type": "enum", "name": "shop.State", "symbols": ["NEW"]}'
    },
    "/schemas/ids/11": {"schema": "no json"},
    "/schemas/ids/12": {},
}


class Asked(Registry):
    def __init__(self) -> None:
        super().__init__("http://user:pass@registry:8081/")
        self.paths: list[str] = []

    def _get(self, path: str) -> dict[str, Any]:
        self.paths.append(path)
        if path not in ANSWERS:
            raise OSError("404")
        return ANSWERS[path]


def framed(number: int, body: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + body


def test_values_by_their_kind() -> None:
    registry = Asked()
    assert registry.plain(framed(7, b"\x08")) == ("avro", b'{"n": 4}')
    assert registry.plain(framed(7, b"\x09")) == ("avro", b'{"n": -5}')
    assert registry.plain(framed(8, b'{"a": 1}')) == ("json", b'{"a": 1}')
    assert registry.plain(framed(10, b"\x02\x00\x00")) == ("avro", b'["NEW"]')
    assert registry.paths.count("/schemas/ids/7") == 1


@pytest.mark.parametrize(
    "data",
    [None, b"", b"text", b"\x00\x00", framed(7, b""), framed(9, b"x"), framed(11, b""), framed(12, b"")],
)
def test_what_has_no_schema(data: bytes | None) -> None:
    assert Asked().plain(data) is None


def test_numbers_that_nobody_knows_do_not_keep_it_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("tidelog.page.asking.schemas.time.monotonic", lambda: now[0])
    registry = Asked()
    for number in range(100, 200):
        assert registry.plain(framed(number, b"")) is None
    assert len(registry.paths) == schemas.FAILURES_IN_A_ROW_MAX
    assert registry.plain(framed(7, b"\x08")) is None  # for a while
    now[0] += schemas.FORGET_FAILURE_S + 1
    assert registry.plain(framed(7, b"\x08")) is not None


def test_the_password_is_not_part_of_the_address() -> None:
    registry = Registry("https://us%40er:p%3Ass@host:1/base/")
    assert registry._url == "https://host:1/base"
    assert json.dumps(registry._headers).count("Basic dXNAZXI6cDpzcw==") == 1
