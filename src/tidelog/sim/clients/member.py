"""A member of a group: joins, gets partitions, reads them and commits; it rejoins for a new generation. It
may stall and continue: then others own its partitions, and its commits must be refused.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.checkers.groups import GroupChecker
from tidelog.sim.checkers.history import PartitionHistory
from tidelog.sim.clients.client import Client
from tidelog.sim.clients.coordinator import GROUP, CoordinatorLink
from tidelog.sim.clients.group import GroupOffsets
from tidelog.sim.clients.reader import HURRY, USUAL, Reader

JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
HEARTBEAT_MS = 400.0
SESSION_MS = 2000
REBALANCE_MS = 2500
JOIN_PATIENCE_MS = 6000.0
PROTOCOL = "in turn"


class Member:
    def __init__(
        self,
        client: Client,
        group: GroupChecker,
        topic_id: UUID,
        partitions: int,
        histories: Callable[[str, int], PartitionHistory],
    ) -> None:
        self._client = client
        self._world = client.world
        self._group = group
        self._topic_id = topic_id
        self._partitions = partitions
        self._histories = histories
        self._link = CoordinatorLink(client, GROUP, group.name)
        self._member_id = ""
        self._generation = -1
        self._places: list[GroupOffsets] = []
        self.readers: list[Reader] = []  # of what belongs to it now
        self.silent_until_ms = 0.0  # sends no heartbeats before
        self.gone = False
        self._load = USUAL

    def start(self) -> None:
        """Join, with nothing in hand."""
        self._let_go()
        self._link.ask(JOIN_GROUP, self._join_body, _code, self._joined, JOIN_PATIENCE_MS)

    def die(self) -> None:
        """Silently."""
        self.gone = True
        self._link.closed = True
        self._let_go()

    def hurry(self) -> None:
        """The run waits for the group to reach the end."""
        self._load = HURRY
        for reader in self.readers:
            reader.hurry()

    def _let_go(self) -> None:
        self._generation = -1
        for place in self._places:
            place.close()
        for reader in self.readers:
            reader.stopped = True
        self._places, self.readers = [], []

    # --- joining --------------------------------------------------------------------------------------------

    def _join_body(self) -> Fields:
        return {
            "group_id": self._group.name, "session_timeout": SESSION_MS, "rebalance_timeout": REBALANCE_MS,
            "member_id": self._member_id, "group_instance_id": None, "protocol_type": "consumer",
            "protocols": [{"name": PROTOCOL, "metadata": b""}], "reason": None,
        }  # fmt: skip

    def _joined(self, code: ErrorCode, answer: Any) -> None:
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            self.start()
        elif code is not ErrorCode.NONE:
            self._refused(code)
        else:
            self._member_id, self._generation = answer.member_id, answer.generation_id
            leads = answer.leader == self._member_id
            self._sync([each.member_id for each in answer.members] if leads else [])

    def _sync(self, members: Sequence[str]) -> None:
        """``members``: all of them, if this one assigns."""
        given = [
            {"member_id": member, "assignment": bytes(range(place, self._partitions, len(members)))}
            for place, member in enumerate(sorted(members))
        ]
        body = {
            "group_id": self._group.name, "generation_id": self._generation, "member_id": self._member_id,
            "group_instance_id": None, "protocol_type": "consumer", "protocol_name": PROTOCOL,
            "assignments": given,
        }  # fmt: skip
        generation = self._generation
        self._link.ask(
            SYNC_GROUP,
            lambda: body,
            _code,
            lambda code, answer: self._synced(generation, code, answer),
            JOIN_PATIENCE_MS,
        )

    def _synced(self, generation: int, code: ErrorCode, answer: Any) -> None:
        if code is not ErrorCode.NONE:
            self._refused(code)
            return
        partitions = list(answer.assignment)
        self._note(f"owns {partitions} in generation {generation}")
        self._group.assigned(generation, self._member_id, partitions)
        for partition in partitions:
            self._read(partition)
        self._beat(generation)

    def _refused(self, code: ErrorCode) -> None:
        self._note(code.name)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._let_go()
        self._world.after(self._client.backoff_ms(), self.start)

    def _note(self, text: str) -> None:
        self._world.note(f"member {self._client.client_id} of {self._group.name}: {text}")

    # --- while it is one ------------------------------------------------------------------------------------

    def _read(self, partition: int) -> None:
        group, client = self._group, self._client
        place = GroupOffsets(
            client, group.name, self._topic_id, partition, group.is_given_up, group.offsets(partition),
            (self._generation, self._member_id), group.is_over,
        )  # fmt: skip
        reader = Reader(
            client,
            self._histories(group.topic, partition),
            group.topic,
            partition,
            group=place,
            consumed=lambda offset: group.consumed(partition, offset),
            load=self._load,
        )
        self._places.append(place)
        self.readers.append(reader)
        reader.resume()

    def _beat(self, generation: int) -> None:
        if self.gone or generation != self._generation:
            return

        def heard(code: ErrorCode, answer: Any) -> None:
            if generation != self._generation:
                return
            if code is ErrorCode.NONE:
                self._world.after(HEARTBEAT_MS, lambda: self._beat(generation))
            else:
                self._refused(code)

        if self._world.now_ms < self.silent_until_ms:
            self._world.after(HEARTBEAT_MS, lambda: self._beat(generation))
            return
        body = {
            "group_id": self._group.name, "generation_id": generation, "member_id": self._member_id,
            "group_instance_id": None,
        }  # fmt: skip
        self._link.ask(HEARTBEAT, lambda: body, _code, heard)


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)
