"""The committed position of a reader in one partition: that of a group of one, which assigns itself its
partition, or of a member in one generation of a larger one.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.clients.client import Client
from tidelog.sim.clients.coordinator import GROUP, CoordinatorLink

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
NO_MEMBER = (-1, "")


class GroupOffsets:
    def __init__(
        self,
        client: Client,
        name: str,
        topic_id: UUID,
        partition: int,
        is_given_up: Callable[[], bool],
        checked: CommittedOffsets,
        member: tuple[int, str] = NO_MEMBER,
        is_over: Callable[[int], bool] = lambda generation: False,
    ) -> None:
        """``member``: generation and member id. ``is_over``: whether others have taken over."""
        self._name = name
        self.generation, self._member_id = member
        self._link = CoordinatorLink(client, GROUP, name)
        self._topic_id = topic_id
        self._partition = partition
        self._is_over = is_over
        self._is_given_up = is_given_up  # whether the coordinators' log has lost something
        self._checked = checked
        self._busy = False

    def reset(self, offset: int) -> None:
        """The partition no longer has a record at the reader's position."""
        self._checked.reset(offset)

    def close(self) -> None:
        """Responses are ignored from now on."""
        self._link.closed = True

    def commit(self, offset: int, epoch: int) -> None:
        """One at a time; not waited for. ``epoch``: of the last record before it."""
        if self._busy:
            return
        self._busy = True
        number, over = self._checked.asked(offset), self._is_over(self.generation)
        partition = {
            "partition_index": self._partition, "committed_offset": offset, "committed_leader_epoch": epoch,
            "committed_metadata": "",
        }  # fmt: skip
        body = {
            "group_id": self._name, "generation_id_or_member_epoch": self.generation,
            "member_id": self._member_id, "group_instance_id": None,
            "topics": [{"topic_id": self._topic_id, "partitions": [partition]}],
        }  # fmt: skip

        def heard(code: ErrorCode, answer: Any) -> None:
            self._busy = False
            if code is ErrorCode.NONE:
                if over and self._is_over(self.generation):
                    raise Violation(f"{self._name}: zombie, generation {self.generation} is over and commits")
                self._checked.told(offset, number)

        self._link.ask(OFFSET_COMMIT, lambda: body, _commit_code, heard)

    def fetch(self, done: Callable[[int, int], None]) -> None:
        """``done`` gets the committed offset, 0 if there is none, and its epoch."""
        topic = {"topic_id": self._topic_id, "partition_indexes": [self._partition]}
        group = {"group_id": self._name, "member_id": None, "member_epoch": -1, "topics": [topic]}
        body = {"groups": [group], "require_stable": True}
        since = self._checked.looking()

        def heard(code: ErrorCode, answer: Any) -> None:
            offset = epoch = -1
            if code is ErrorCode.NONE:
                found = _fetched(answer)
                offset, epoch = found.committed_offset, found.committed_leader_epoch
                self._checked.found(offset, given_up=self._is_given_up(), since=since)
            done(max(offset, 0), epoch)

        self._link.ask(OFFSET_FETCH, lambda: body, _fetch_code, heard)


def _commit_code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def _fetched(answer: Any) -> Any:
    return answer.groups[0].topics[0].partitions[0]


def _fetch_code(answer: Any) -> ErrorCode:
    group = answer.groups[0]
    return ErrorCode(group.error_code or _fetched(answer).error_code)
