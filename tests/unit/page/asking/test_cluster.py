"""What is asked about the cluster, in which order."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.page.asking import cluster as questions
from tidelog.page.asking.link import Link
from tidelog.page.facts import Quorum
from unit.page.seen import cluster, partition


@pytest.mark.parametrize("before_its_death", range(4))
def test_a_leadership_has_not_moved_from_a_broker_that_is_up(
    monkeypatch: pytest.MonkeyPatch, before_its_death: int
) -> None:
    """Broker 1 dies after so many questions. Broker 2 leads from then on, and broker 1 is fenced. The page
    would say that it did not keep up, and that leadership was moved though it is up.
    """
    asked = 0

    def has_died() -> bool:
        nonlocal asked
        asked += 1
        return asked > before_its_death

    def quorum(link: Link, before: Quorum) -> Quorum:
        has_died()
        return before

    def ask(api: int, body: dict[str, Any]) -> SimpleNamespace:
        fenced = has_died()
        brokers = [
            SimpleNamespace(
                broker_id=each, host="h", port=9091 + each, rack=None, is_fenced=fenced and each == 1
            )
            for each in (1, 2)
        ]
        return SimpleNamespace(error_code=0, cluster_id="c", brokers=brokers)

    monkeypatch.setattr(questions, "quorum", quorum)
    monkeypatch.setattr(
        questions, "_topics", lambda link: cluster(partition(2 if has_died() else 1, (1, 2))).topics
    )
    link = SimpleNamespace(ask=ask, address=("h", 9092))
    seen = questions.look(cast(Link, link), Quorum())
    (topic,) = seen.topics.values()
    assert asked == 3
    assert seen.brokers[1].fenced or topic.partitions[0].leader == 1
