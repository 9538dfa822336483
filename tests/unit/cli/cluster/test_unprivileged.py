"""Users who may not look at the controllers."""

from typing import Any, cast

import pytest

from tidelog.cli.cluster.controllers import _has_active
from tidelog.cli.cluster_client import ClusterClient
from tidelog.errors import ErrorCode


class Answer:
    topics: tuple[Any, ...] = ()

    def __init__(self, code: ErrorCode) -> None:
        self.error_code = int(code)


class Client:
    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def ask_quickly(self, *_: Any) -> Answer:
        return Answer(self._code)


@pytest.mark.parametrize(
    ("code", "active"),
    [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True), (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)],
)
def test_a_refusal_is_not_taken_for_a_missing_controller(code: ErrorCode, active: bool) -> None:
    assert _has_active(cast(ClusterClient, Client(code)), 0.1) == active
