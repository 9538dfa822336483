"""Offsets of a group, sent in a transaction: the position of a consumer that is also a producer."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.clients.client import Client
from tidelog.sim.clients.coordinator import GROUP, CoordinatorLink

OFFSET_FETCH, TXN_OFFSET_COMMIT = 9, 28
PARTITION = 0
UNSTABLE_MS = 50.0


class OffsetSender:
    def __init__(
        self,
        client: Client,
        transactional_id: str,
        topic_id: UUID,
        topic: str,
        is_given_up: Callable[[], bool],
    ) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self.group = f"of {transactional_id}"
        self._topic_id = topic_id
        self._topic = topic
        self.is_given_up = is_given_up  # whether the coordinators' log has lost something
        self._link = CoordinatorLink(client, GROUP, self.group)

    def send(
        self,
        producer: tuple[int, int],
        offset: int,
        version: int | None,
        heard: Callable[[ErrorCode], None],
    ) -> None:
        partition = {
            "partition_index": PARTITION, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": "",
        }  # fmt: skip
        body: Fields = {
            "transactional_id": self._transactional_id, "group_id": self.group, "producer_id": producer[0],
            "producer_epoch": producer[1], "generation_id": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": self._topic, "partitions": [partition]}],
        }  # fmt: skip
        self._link.ask(
            TXN_OFFSET_COMMIT, lambda: body, _sent_code, lambda code, _: heard(code), version=version
        )

    def fetch(self, found: Callable[[int], None]) -> None:
        """The valid offset, -1 if there is none."""
        topic = {"topic_id": self._topic_id, "partition_indexes": [PARTITION]}
        group = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": [topic]}
        body: Fields = {"groups": [group], "require_stable": True}

        def heard(code: ErrorCode, answer: Any) -> None:
            if code is ErrorCode.NONE:
                found(_fetched(answer).committed_offset)
            else:
                self._client.world.after(UNSTABLE_MS, lambda: self.fetch(found))

        self._link.ask(OFFSET_FETCH, lambda: body, _fetch_code, heard)


def _sent_code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def _fetched(answer: Any) -> Any:
    return answer.groups[0].topics[0].partitions[0]


def _fetch_code(answer: Any) -> ErrorCode:
    group = answer.groups[0]
    return ErrorCode(group.error_code or _fetched(answer).error_code)
