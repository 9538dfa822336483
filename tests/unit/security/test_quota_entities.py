"""Quotas: entities and limits."""

import pytest

from tidelog.errors import InvalidRequest
from tidelog.security.quota_entities import check_limits, entity_of


class TestEntities:
    def test_the_order_of_a_request_does_not_count(self) -> None:
        parts = [("user", "alice"), ("client-id", None)]
        assert entity_of(parts) == entity_of(reversed(parts)) == (("client-id", None), ("user", "alice"))

    def test_an_address_has_one_form(self) -> None:
        assert entity_of([("ip", "0:0:0:0:0:0:0:1")]) == (("ip", "::1"),)
        assert entity_of([("ip", None)]) == (("ip", None),)

    @pytest.mark.parametrize(
        "parts",
        [
            [],
            [("group", "g")],
            [("user", "")],
            [("user", "a"), ("user", "b")],
            [("ip", "10.0.0.1"), ("user", "a")],
            [("ip", "some.host")],
        ],
    )
    def test_what_no_entity_is(self, parts: list[tuple[str, str | None]]) -> None:
        with pytest.raises(InvalidRequest):
            entity_of(parts)


class TestLimits:
    @pytest.mark.parametrize(
        ("kind", "key", "value"),
        [
            ("user", "producer_byte_rate", 1),
            ("client-id", "consumer_byte_rate", 1e6),
            ("user", "request_percentage", 0.5),
            ("user", "controller_mutation_rate", 0.1),
            ("ip", "connection_creation_rate", 10),
            ("user", "producer_byte_rate", None),
        ],
    )
    def test_good_ones(self, kind: str, key: str, value: float | None) -> None:
        check_limits(((kind, None),), {key: value})

    @pytest.mark.parametrize(
        ("kind", "key", "value"),
        [
            ("user", "producer_byte_rate", 0),
            ("user", "producer_byte_rate", -1),
            ("user", "producer_byte_rate", 1.5),
            ("user", "producer_byte_rate", 1e30),
            ("user", "request_percentage", float("nan")),
            ("user", "request_percentage", float("inf")),
            ("user", "speed", 1),
            ("user", "speed", None),
            ("user", "connection_creation_rate", 10),
            ("ip", "producer_byte_rate", 10),
            ("ip", "connection_creation_rate", 1e12),
        ],
    )
    def test_bad_ones(self, kind: str, key: str, value: float | None) -> None:
        with pytest.raises(InvalidRequest):
            check_limits(((kind, None),), {key: value})
