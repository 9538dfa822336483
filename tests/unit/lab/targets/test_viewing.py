"""One view from several brokers."""

import threading

import pytest

from tidelog.client.cluster_view import ClusterView, PartitionView
from tidelog.lab.targets import viewing
from tidelog.lab.targets.viewing import Viewer

ADDRESSES = {1: ("h", 1), 2: ("h", 2), 3: ("h", 3)}


def part(leader: int, epoch: int) -> PartitionView:
    return PartitionView(leader, epoch, (1, 2, 3), (1, 2, 3))


def viewer(monkeypatch: pytest.MonkeyPatch, said: dict[int, ClusterView | OSError]) -> Viewer:
    def view(host: str, port: int, *topics: str, timeout_s: float) -> ClusterView:
        answer = said[port]
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(viewing, "view_cluster", view)
    return Viewer(lambda: ADDRESSES)


def test_the_newest_epoch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off = ClusterView({1: ("h", 1)}, -1, {"t": [part(1, 4)]})
    others = ClusterView(ADDRESSES, 2, {"t": [part(2, 5)]})
    found = viewer(monkeypatch, {1: cut_off, 2: others, 3: others})
    view = found.view("t")
    assert view.topics["t"] == [part(2, 5)]
    assert (view.brokers, view.controller) == (ADDRESSES, 2)


def test_in_one_epoch_the_earlier_replica_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that readers may use while its primary is cut off from them."""
    primary = ClusterView(ADDRESSES, 2, {"t": [part(1, 5)]})
    others = ClusterView(ADDRESSES, 2, {"t": [part(3, 5)]})
    none = ClusterView(ADDRESSES, 2, {"t": [part(-1, 5)]})
    found = viewer(monkeypatch, {1: primary, 2: others, 3: none})
    assert found.view("t").topics["t"] == [part(1, 5)]
    assert found.answering() == frozenset(ADDRESSES)


def test_no_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = viewer(monkeypatch, dict.fromkeys(ADDRESSES, ConnectionRefusedError()))
    with pytest.raises(OSError, match="no broker answers"):
        found.view("t")


def test_a_silent_broker_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = ClusterView(ADDRESSES, 2, {"t": [part(2, 5)]})
    answer = threading.Event()
    asked: list[int] = []

    def view(host: str, port: int, *topics: str, timeout_s: float) -> ClusterView:
        asked.append(port)
        if port == 1:
            answer.wait(60)
        return fine

    monkeypatch.setattr(viewing, "view_cluster", view)
    found = Viewer(lambda: ADDRESSES)
    try:
        assert found.view("t").topics["t"] == [part(2, 5)]
        assert found.view("t").topics["t"] == [part(2, 5)]
        assert sorted(asked) == [1, 2, 2, 3, 3]  # not asked again while it has not answered
    finally:
        answer.set()
