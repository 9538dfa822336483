"""Which broker the page asks about the cluster."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from tidelog.page import watcher as watching
from tidelog.page.asking import cluster as cluster_questions
from tidelog.page.asking.link import Address, Link
from tidelog.page.facts import NO_LEADER, ClusterSeen, Quorum
from tidelog.page.watcher import Watcher
from unit.page.seen import cluster, partition

PATIENCE_S = 20.0


class FakeLink:
    def __init__(self, address: Address, timeout_s: float = 0.0) -> None:
        self.address = address

    def serves(self, api: int, version: int) -> bool:
        return True

    def close(self) -> None: ...


def told_by(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[int, tuple[int, Quorum]]
) -> tuple[Watcher, list[int]]:
    """A page whose brokers say that a broker leads the one partition, and who the controllers are."""
    asked: list[int] = []

    def look(link: FakeLink, before: Quorum) -> ClusterSeen:
        broker = link.address[1] - 9091
        asked.append(broker)
        leader, quorum = answers[broker]
        return cluster(partition(leader, (1, 2, 3)))._replace(quorum=quorum, asked=link.address)

    monkeypatch.setattr(watching, "Link", FakeLink)
    monkeypatch.setattr(cluster_questions, "look", look)
    monkeypatch.setattr(cluster_questions, "quorum", lambda link, before: answers[link.address[1] - 9091][1])
    return Watcher([("127.0.0.1", 9092)]), asked


class QuietWatch:
    """Instead of the tasks that watch one broker."""

    def __init__(self, watcher: Watcher, broker: int, address: Address) -> None:
        self.address, self.http_port = address, 0


def test_the_ends_of_a_topic_that_is_gone_or_another_one_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "BrokerWatch", QuietWatch)
    page, seen = Watcher([("127.0.0.1", 9092)]), cluster(partition(1, (1, 2)))
    for after in (
        cluster(),
        seen._replace(topics={"orders": seen.topics["orders"]._replace(topic_id="new")}),
    ):
        page._cluster_seen(seen)
        page.facts.ends["orders"] = {0: 7}
        page._cluster_seen(seen)
        assert page.facts.ends["orders"] == {0: 7}
        page._cluster_seen(after)
        assert "orders" not in page.facts.ends


async def seen_by(page: Watcher, asked: list[int], times: int) -> ClusterSeen | None:
    watch = page.spawn(page._watch_cluster())
    async with asyncio.timeout(PATIENCE_S):
        while len(asked) < times:
            await asyncio.sleep(0.01)
    watch.cancel()
    return page.facts.cluster


class TestABrokerThatIsCutOff:
    @pytest.mark.slow
    def test_it_is_not_asked_while_another_knows_an_active_controller(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def play() -> ClusterSeen | None:
            answers = {1: (1, Quorum(1, 4, (1, 2, 3))), 2: (2, Quorum(2, 5, (1, 2, 3)))}
            page, asked = told_by(monkeypatch, answers)
            monkeypatch.setattr(watching, "BrokerWatch", QuietWatch)
            assert await seen_by(page, asked, 2) == cluster(partition(1, (1, 2, 3)))._replace(
                quorum=answers[1][1], asked=("127.0.0.1", 9092)
            )
            answers[1] = (1, Quorum(NO_LEADER, 4, (1, 2, 3)))
            return await seen_by(page, asked, len(asked) + 3)

        seen = asyncio.run(play())
        assert seen is not None
        assert seen.asked == ("127.0.0.1", 9093)
        assert seen.topics["orders"].partitions[0].leader == 2

    @pytest.mark.slow
    def test_it_is_left_if_it_accepts_connections_and_answers_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It waits for a controller; the page asked it again and again, and showed what it knew before."""

        async def play() -> ClusterSeen | None:
            answers = {each: (each, Quorum(each, 3 + each, (1, 2, 3))) for each in (1, 2)}
            page, asked = told_by(monkeypatch, answers)
            monkeypatch.setattr(watching, "BrokerWatch", QuietWatch)
            await seen_by(page, asked, 1)
            answered = cluster_questions.look

            def look(link: FakeLink, before: Quorum) -> ClusterSeen:
                found = answered(cast(Link, link), before)
                if link.address[1] == 9092:
                    raise TimeoutError
                return found

            monkeypatch.setattr(cluster_questions, "look", look)
            return await seen_by(page, asked, len(asked) + 3)

        seen = asyncio.run(play())
        assert seen is not None
        assert seen.asked == ("127.0.0.1", 9093)

    @pytest.mark.slow
    def test_it_is_asked_if_none_knows_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def play() -> ClusterSeen | None:
            nobody = Quorum(NO_LEADER, 4, (1, 2, 3))
            page, asked = told_by(monkeypatch, {each: (each, nobody) for each in (1, 2, 3)})
            monkeypatch.setattr(watching, "BrokerWatch", QuietWatch)
            return await seen_by(page, asked, 3)

        seen = asyncio.run(play())
        assert seen is not None
        assert seen.asked == ("127.0.0.1", 9092)
