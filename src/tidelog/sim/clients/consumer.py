"""A member of a group by the consumer protocol (KIP-848): one request reports what it has and returns its
assignment. It revokes a partition before it reports so, and reads one only after it was assigned.

Like :class:`~tidelog.sim.clients.member.Member` it may die silently, or stall and continue.
"""

from collections.abc import Callable
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

CONSUMER_GROUP_HEARTBEAT = 68
HEARTBEAT_MS = 400.0
SESSION_MS = 2000  # as the brokers are set
REBALANCE_MS = 2500
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class Consumer:
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
        self._histories = histories
        self._link = CoordinatorLink(client, GROUP, group.name)
        self._member_id = str(client.world.uuid())
        self._epoch = 0  # 0: to join
        self._places: dict[int, GroupOffsets] = {}
        self._reading: dict[int, Reader] = {}
        self._told = False  # whether the coordinator knows what this member has now
        # Whether its last heartbeat has no response yet: the coordinator may have assigned something
        # meanwhile that it does not know, and repeats that only to a member that sends all fields.
        self._unsure = False
        self._run = 0  # of heartbeats: a response to an earlier one does not count
        self._load = USUAL
        self.silent_until_ms = 0.0  # sends no heartbeats before
        self.gone = False

    @property
    def readers(self) -> list[Reader]:
        """Of what belongs to it now."""
        return list(self._reading.values())

    def start(self) -> None:
        self._beat()

    def die(self) -> None:
        """Silently."""
        self.gone = True
        self._link.closed = True
        self._let_go(set())
        self._group.died(self._member_id)

    def hurry(self) -> None:
        """The run waits for the group to reach the end."""
        self._load = HURRY
        for reader in self.readers:
            reader.hurry()

    def _note(self, text: str) -> None:
        self._world.note(f"consumer {self._client.client_id} of {self._group.name}: {text}")

    # --- heartbeats -----------------------------------------------------------------------------------------

    def _body(self) -> Fields:
        owned = [{"topic_id": self._topic_id, "partitions": sorted(self._reading)}] if self._reading else []
        everything = self._epoch == 0 or self._unsure
        self._unsure = True
        return {
            "group_id": self._group.name, "member_id": self._member_id, "member_epoch": self._epoch,
            "instance_id": None, "rack_id": None, "rebalance_timeout": REBALANCE_MS if everything else -1,
            "subscribed_topic_names": [self._group.topic] if everything else None,
            "subscribed_topic_regex": None,
            "server_assignor": None, "topic_partitions": owned if everything or not self._told else None,
        }  # fmt: skip

    def _beat(self) -> None:
        if self.gone:
            return
        if self._world.now_ms < self.silent_until_ms:
            self._world.after(HEARTBEAT_MS, self._beat)
            return
        self._run += 1
        run, asked_ms = self._run, self._world.now_ms
        self._link.ask(
            CONSUMER_GROUP_HEARTBEAT,
            self._body,
            _code,
            lambda code, answer: self._heard(run, asked_ms, code, answer),
        )

    def _heard(self, run: int, asked_ms: float, code: ErrorCode, answer: Any) -> None:
        if self.gone or run != self._run:
            return
        if code is ErrorCode.NONE:
            self._told, self._unsure = True, False
            self._group.heard(self._member_id, asked_ms)
            self._epoch = answer.member_epoch
            for place in self._places.values():
                place.generation = self._epoch
            if answer.assignment is not None:
                self._reconcile(
                    {index for each in answer.assignment.topic_partitions for index in each.partitions}
                )
        else:
            self._note(code.name)
            if code in FENCED:
                self._let_go(set())
                self._group.released(self._member_id, None)
                self._epoch, self._told = 0, False
        self._world.after(HEARTBEAT_MS if self._told else self._client.backoff_ms(), self._beat)

    def _reconcile(self, wanted: set[int]) -> None:
        """First it revokes, then it adds."""
        if wanted == set(self._reading):
            return
        self._note(f"has {sorted(self._reading)} and shall have {sorted(wanted)} in epoch {self._epoch}")
        self._let_go(wanted)
        self._group.released(self._member_id, wanted)
        self._told = False
        for partition in sorted(wanted - self._reading.keys()):
            self._group.taken(self._member_id, partition, self._world.now_ms)
            self._read(partition)

    def _let_go(self, kept: set[int]) -> None:
        for partition in sorted(self._reading.keys() - kept):
            self._reading.pop(partition).stopped = True
            self._places.pop(partition).close()

    def _read(self, partition: int) -> None:
        group, client, me = self._group, self._client, self._member_id
        place = GroupOffsets(
            client, group.name, self._topic_id, partition, group.is_given_up, group.offsets(partition),
            (self._epoch, me), lambda epoch: group.is_of_another(partition, me),
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
        self._places[partition] = place
        self._reading[partition] = reader
        reader.resume()


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)
