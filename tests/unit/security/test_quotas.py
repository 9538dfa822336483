"""Client quotas: the limit that counts, the rate, and the wait."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.security import quotas as module
from tidelog.security.quota_entities import (
    CONNECTION_RATE,
    FETCH_RATE,
    MUTATION_RATE,
    PRODUCE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    entity_of,
)
from tidelog.security.quotas import (
    SAMPLES,
    WAIT_MS_MAX,
    Limits,
    Quota,
    Quotas,
    Rate,
    TokenBucket,
    connection_quota_of,
    quota_of,
)

UNSET: Any = object()


def entity(user: Any = UNSET, client: Any = UNSET) -> QuotaEntity:
    parts = (("user", user), ("client-id", client))
    return entity_of((kind, name) for kind, name in parts if name is not UNSET)


# From the most to the least specific, as Kafka documents it.
ORDER = [
    entity("alice", "app"), entity("alice", None), entity("alice"), entity(None, "app"), entity(None, None),
    entity(None), entity(client="app"), entity(client=None),
]  # fmt: skip
SHARED_BY = [
    ("alice", "app"), ("alice", "app"), ("alice", ""), ("alice", "app"), ("alice", "app"), ("alice", ""),
    ("", "app"), ("", "app"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_the_most_specific_quota_counts(number: int) -> None:
    limits = {each: {PRODUCE_RATE: float(at + 1)} for at, each in enumerate(ORDER) if at >= number}
    assert quota_of(limits, PRODUCE_RATE, "alice", "app") == Quota(number + 1, *SHARED_BY[number])


def test_each_kind_of_limit_has_its_own_order() -> None:
    limits = {ORDER[0]: {PRODUCE_RATE: 1.0}, ORDER[7]: {PRODUCE_RATE: 2.0, FETCH_RATE: 3.0}}
    found = [quota_of(limits, key, "alice", "app") for key in (PRODUCE_RATE, FETCH_RATE, REQUEST_PERCENTAGE)]
    assert found == [Quota(1.0, "alice", "app"), Quota(3.0, "", "app"), None]


def test_others_have_no_limit() -> None:
    limits = {
        each: {PRODUCE_RATE: 1.0} for each in (entity("alice", "app"), entity("bob"), entity(client="x"))
    }
    assert quota_of(limits, PRODUCE_RATE, "alice", "app2") is None
    assert quota_of(limits, PRODUCE_RATE, "carol", "app") is None


def test_addresses() -> None:
    limits: Limits = {(("ip", "10.0.0.1"),): {CONNECTION_RATE: 5.0}, (("ip", None),): {CONNECTION_RATE: 1.0}}
    assert [connection_quota_of(limits, ip) for ip in ("10.0.0.1", "10.0.0.2")] == [5.0, 1.0]
    assert connection_quota_of({}, "10.0.0.1") is None


class TestRate:
    def test_a_steady_client_within_its_limit_never_waits(self) -> None:
        rate = Rate()
        for now_ms in range(0, 60_000, 100):
            rate.use(98, now_ms)
            assert rate.wait_ms(1000, now_ms) == 0

    def test_ten_seconds_worth_may_be_used_at_once(self) -> None:
        rate = Rate()
        rate.use(10_000, 500_000)
        assert rate.wait_ms(1000, 500_000) == 0
        rate.use(1, 500_000)
        assert rate.wait_ms(1000, 500_000) == 1

    def test_the_wait_is_until_the_rate_is_the_limit(self) -> None:
        """Kafka's formula: (rate - limit) / limit * window."""
        rate = Rate()
        now_ms = 500_250
        rate.use(30_000, now_ms)
        window_s = 10.25
        assert rate.wait_ms(1000, now_ms) == round((30_000 / window_s - 1000) / 1000 * window_s * 1000)

    def test_what_is_older_than_the_window_is_forgotten(self) -> None:
        rate = Rate()
        rate.use(30_000, 500_000)
        assert rate.wait_ms(1000, 500_000 + SAMPLES * 1000 - 1) > 0
        assert rate.wait_ms(1000, 500_000 + SAMPLES * 1000) == 0

    def test_a_wait_fits_into_a_response(self) -> None:
        rate = Rate()
        rate.use(1e15, 0)
        assert rate.wait_ms(0.001, 0) == WAIT_MS_MAX

    @pytest.mark.parametrize("limit", [0.0, 5e-324, 1e-310, 1e-300, 1e308])
    def test_a_limit_may_be_as_small_or_large_as_a_float(self, limit: float) -> None:
        rate = Rate()
        rate.use(0.5, 0)
        assert rate.wait_ms(limit, 0) == (WAIT_MS_MAX if limit < 1 else 0)

    @given(
        uses=st.lists(st.tuples(st.integers(0, 3000), st.floats(0, 1)), max_size=300),
        limit=st.integers(1, 5000),
    )
    def test_who_waits_keeps_to_the_limit(self, uses: list[tuple[int, float]], limit: int) -> None:
        """Requests worth at most a second each. A client that waits as told uses at most a tenth more than
        the limit, beside what two windows allow. The rule is Kafka's and no more exact: a wait is told once,
        for the window as it is. After the long wait for a larger request, the window is empty.
        """
        rate, now_ms, used = Rate(), 0, 0.0
        for pause_ms, share in uses:
            now_ms += pause_ms
            rate.use(share * limit, now_ms)
            used += share * limit
            now_ms += rate.wait_ms(limit, now_ms)
            assert used <= 1.1 * limit * (now_ms / 1000 + 2 * SAMPLES)


class TestTokenBucket:
    @pytest.mark.parametrize("limit", [5e-324, 1e-310, 1e-300, 1e308])
    def test_a_limit_may_be_as_small_or_large_as_a_float(self, limit: float) -> None:
        bucket = TokenBucket(limit, 0)
        bucket.use(1, limit, 0)
        assert bucket.wait_ms(limit, 0) == (WAIT_MS_MAX if limit < 1 else 0)

    def test_it_is_full_at_first_and_may_be_overdrawn_once(self) -> None:
        bucket = TokenBucket(2.0, 0)
        bucket.use(22, 2.0, 0)
        assert bucket.wait_ms(2.0, 0) == 0
        bucket.use(8, 2.0, 0)
        assert bucket.wait_ms(2.0, 0) == 4000
        assert bucket.wait_ms(2.0, 3999) == 1
        assert bucket.wait_ms(2.0, 4000) == 0

    def test_it_holds_no_more_than_a_window(self) -> None:
        bucket = TokenBucket(2.0, 0)
        bucket.use(23, 2.0, 3_600_000)
        assert bucket.wait_ms(2.0, 3_600_000) == 500


class TestQuotas:
    def test_clients_share_what_is_theirs_together(self) -> None:
        quotas = Quotas()
        assert quotas.follow(
            {entity("alice"): {PRODUCE_RATE: 1000.0}, entity(client=None): {FETCH_RATE: 5.0}}
        )
        one, other = (quotas.use_of("alice", name, 0) for name in ("a", "b"))
        assert one.produce is not None
        assert other.produce is not None
        assert one.produce[1] is other.produce[1]
        assert one.fetch is not None
        assert other.fetch is not None
        assert one.fetch[1] is not other.fetch[1]
        assert (one.request_time, one.mutations) == (None, None)
        assert one.fetch_bytes_max == 55

    def test_no_limits(self) -> None:
        quotas = Quotas()
        assert not quotas.follow({})
        assert not quotas.limits_clients
        use = quotas.use_of("alice", "app", 0)
        assert (use.is_limited, use.fetch_bytes_max) == (False, None)

    def test_limits_of_addresses_cost_clients_nothing(self) -> None:
        quotas = Quotas()
        assert quotas.follow({(("ip", None),): {CONNECTION_RATE: 1.0}})
        assert not quotas.limits_clients

    def test_what_was_used_outlives_a_change_of_limits(self) -> None:
        quotas = Quotas()
        quotas.follow({entity("alice"): {PRODUCE_RATE: 1e9}})
        before = quotas.use_of("alice", "a", 0).produce
        assert before is not None
        before[1].use(30_000, 0)
        assert not quotas.follow({entity("alice"): {PRODUCE_RATE: 1e9}})
        assert quotas.follow({entity("alice"): {PRODUCE_RATE: 1000.0}})
        after = quotas.use_of("alice", "a", 0).produce
        assert after is not None
        assert after[1].wait_ms(after[0], 0) == 20_000

    def test_a_percentage_is_of_the_event_loops_time(self) -> None:
        quotas = Quotas()
        quotas.follow({entity("alice"): {REQUEST_PERCENTAGE: 20.0}})
        use = quotas.use_of("alice", "a", 0).request_time
        assert use is not None
        use[1].use(2.0, 0)
        assert use[1].wait_ms(use[0], 0) == 0
        use[1].use(0.2, 0)
        assert use[1].wait_ms(use[0], 0) == 1000

    def test_clients_that_change_their_ids_use_a_bounded_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "CLIENTS_MAX", 5)
        quotas = Quotas()
        quotas.follow({entity(client=None): {PRODUCE_RATE: 1.0, MUTATION_RATE: 1.0}})
        kept = quotas.use_of("alice", "kept", 0).produce
        for number in range(20):
            quotas.use_of("alice", f"id{number}", 0)
            again = quotas.use_of("alice", "kept", 0).produce
            assert kept is not None
            assert again is not None
            assert again[1] is kept[1]
        assert (len(quotas._rates), len(quotas._buckets)) == (5, 5)

    def test_connections_of_an_address(self) -> None:
        quotas = Quotas()
        assert quotas.connected("10.0.0.1", 0) == 0
        quotas.follow({(("ip", "10.0.0.1"),): {CONNECTION_RATE: 2.0}})
        waits = [quotas.connected("10.0.0.1", 0) for _ in range(22)]
        assert waits == [0] * 21 + [500]
        assert quotas.connected("10.0.0.2", 0) == 0
        assert quotas.connected("10.0.0.1", 500) == 0
