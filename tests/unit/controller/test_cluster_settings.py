"""Settings that must be the same on all brokers: differences are reported."""

from tidelog.config import BrokerConfig
from tidelog.controller.cluster_settings import VALUE_MAX, differences, values_of

OURS = BrokerConfig.parse({"min.insync.replicas": 2})
THEIRS = BrokerConfig.parse({"min.insync.replicas": 1, "log.flush.interval.messages": 1 << 40})


def test_only_what_differs_and_is_not_set_for_all_counts() -> None:
    ours, theirs = values_of(OURS), values_of(THEIRS)
    assert list(differences(ours, theirs, {})) == [("min.insync.replicas", 2, 1)]
    assert list(differences(ours, theirs, {"min.insync.replicas": "2"})) == []
    assert list(differences(ours, ours, {})) == []
    assert list(differences(ours, (("of.a.later.version", 3),), {})) == []
    assert all(0 <= value <= VALUE_MAX for _, value in theirs)


def test_what_was_set_for_one_run_only_is_not_the_file_s() -> None:
    changed = OURS.with_dynamic({}, {"min.insync.replicas": "3"})
    assert values_of(changed) == values_of(OURS)
