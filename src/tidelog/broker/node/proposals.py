"""In-sync proposals of leaders on this node: sent to the active controller until the metadata or a refusal
shows the outcome.

A leader of thousands of partitions has as many proposals at once when a broker comes back. Only a part of
them is in flight at a time. Otherwise their repetitions would reach the controller faster than it decides,
and its queue would grow without a limit.
"""

from collections.abc import Callable, Mapping
from typing import cast
from uuid import UUID

from tidelog.broker.node.ports import NodeState
from tidelog.controller import leader_assignment
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import ControllerAsk, InSyncAsk, InSyncGot
from tidelog.errors import ErrorCode
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.messages import PartitionKey
from tidelog.services import Services

PROPOSAL_REPEAT_MS = 500
IN_FLIGHT_MAX = 300  # about 5 ms to send


class Proposals:
    def __init__(
        self,
        node: NodeState,
        driver: Mapping[PartitionKey, ReplicaDriver],
        services: Services,
        ask_controller: Callable[[ControllerAsk], None],
    ) -> None:
        self._node = node
        self._driver = driver
        self._services = services
        self._ask_controller = ask_controller
        self._open: dict[PartitionKey, InSyncProposal] = {}
        self._in_flight: dict[PartitionKey, InSyncProposal] = {}  # Not answered, and not yet to be repeated.
        self._queued: dict[PartitionKey, tuple[ReplicaDriver, InSyncProposal]] = {}  # To be sent next.
        self._sends = False

    def proposed(
        self, driver: ReplicaDriver, effect: ProposeInSync, member_epochs: Mapping[int, int]
    ) -> None:
        """``member_epochs``: the broker epochs at the time of the proposal, which all repetitions use. The
        progress of a member is that of this incarnation of the broker.
        """
        topic_id, index = cast(tuple[UUID, int], driver.key)
        proposal = InSyncProposal(
            self._node.me,
            self._node.broker_epoch,
            topic_id,
            index,
            effect.leader_epoch,
            effect.partition_epoch,
            effect.members,
            tuple(member_epochs.get(member, -1) for member in effect.members),
            sealed=effect.sealed,
        )
        self._open[driver.key] = proposal
        if self._asks_in_vain(driver, proposal):
            # The controller would refuse it. But every write would wait for that member until the refusal, or
            # until there is another controller if the active one is stopping.
            self._services.soon(lambda: self._think_again(driver, proposal))
        else:
            self._ask(driver, proposal)

    def forget(self, driver: ReplicaDriver) -> None:
        """Drop the proposal of a replica whose role has changed."""
        self._open.pop(driver.key, None)

    def _asks_in_vain(self, driver: ReplicaDriver, proposal: InSyncProposal) -> bool:
        """Whether a new member is ineligible according to this node's metadata."""
        image, newcomers = (
            self._node.image,
            set(proposal.members).difference(driver.replica.in_sync, (self._node.me,)),
        )
        topic = image.topic_by_id(proposal.topic_id)
        if topic is None or proposal.sealed:
            return False
        partition = topic.partitions[proposal.partition]
        return any(
            leader_assignment.why_ineligible(image, partition, proposal, member) for member in newcomers
        )

    def _think_again(self, driver: ReplicaDriver, proposal: InSyncProposal) -> None:
        # A member that has just come back was not proposed again, because it was already proposed.
        if self._asks_in_vain(driver, proposal):
            self._give_up(driver, proposal)
        else:
            self._ask(driver, proposal)

    def _give_up(self, driver: ReplicaDriver, proposal: InSyncProposal, *, recorded: bool = False) -> None:
        if self._open.get(driver.key) is proposal:
            del self._open[driver.key]
            driver.run(driver.replica.proposal_refused(recorded=recorded))

    def _ask(self, driver: ReplicaDriver, proposal: InSyncProposal) -> None:
        """Send the proposal repeatedly until there is a response or new metadata: messages can be lost."""
        self._drop_if_outdated(driver, proposal)
        if self._is_open(driver, proposal):
            self._queued[driver.key] = (driver, proposal)
            self._send_queued()

    def _is_open(self, driver: ReplicaDriver, proposal: InSyncProposal) -> bool:
        return not self._node.stopped and self._open.get(driver.key) is proposal

    def _drop_if_outdated(self, driver: ReplicaDriver, proposal: InSyncProposal) -> None:
        """Drop an open proposal that its replica no longer makes, and let the replica propose again."""
        if self._is_open(driver, proposal) and not _is_pending(driver, proposal):
            del self._open[driver.key]
            self._invite_again(driver)

    def _send_queued(self) -> None:
        """What is left in the queue is sent with the next repetition or response."""
        if self._sends:
            return  # A queued proposal was out of date, and its partition has proposed again.
        self._sends = True
        try:
            for _ in range(min(len(self._queued), IN_FLIGHT_MAX - len(self._in_flight))):
                driver, proposal = self._queued.pop(next(iter(self._queued)))
                self._drop_if_outdated(driver, proposal)
                if self._is_open(driver, proposal):
                    self._send(driver, proposal)
        finally:
            self._sends = False

    def _send(self, driver: ReplicaDriver, proposal: InSyncProposal) -> None:
        # The proposal may be older than the latest registration of this broker, and one with an earlier
        # broker epoch is always refused.
        present = proposal._replace(broker_epoch=self._node.broker_epoch)
        self._open[driver.key] = self._in_flight[driver.key] = present
        if not self._services.perturb("proposal skipped"):
            self._ask_controller(InSyncAsk(present))
        if self._services.perturb("proposal doubled"):
            self._ask_controller(InSyncAsk(present))
        self._services.later(PROPOSAL_REPEAT_MS, lambda: self._repeat(driver, present))

    def _repeat(self, driver: ReplicaDriver, proposal: InSyncProposal) -> None:
        self._landed(driver.key, proposal)
        self._ask(driver, proposal)
        self._send_queued()

    def _landed(self, key: PartitionKey, proposal: InSyncProposal) -> None:
        if self._in_flight.get(key) == proposal:
            del self._in_flight[key]

    def answered(self, got: InSyncGot) -> None:
        """Only a refusal for the current state of the partition ends a proposal. The refusal is committed and
        raises the partition epoch, so no earlier copy of this proposal can be accepted afterwards.

        If the state has changed (INVALID_UPDATE_VERSION), an earlier copy of this proposal may have been
        accepted. The leader then waits for the proposed members until the metadata log shows the outcome.
        """
        key = (got.proposal.topic_id, got.proposal.partition)
        self._landed(key, got.proposal)
        self._send_queued()
        driver = self._driver.get(key)
        if driver is None or self._open.get(key) != got.proposal:
            return
        if got.error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST):
            self._give_up(driver, self._open[key], recorded=True)
            # The reason for the refusal may have ended before the response arrived. Nothing else would
            # propose that follower again.
            self._services.later(PROPOSAL_REPEAT_MS, lambda: self._invite_again(driver))

    def _invite_again(self, driver: ReplicaDriver) -> None:
        if not self._node.stopped and self._driver.get(driver.key) is driver:
            driver.run(driver.replica.invite())


def _is_pending(driver: ReplicaDriver, proposal: InSyncProposal) -> bool:
    """Whether the replica still makes this proposal, for the same state of its partition."""
    replica = driver.replica
    return (replica.proposals.pending, replica.partition_epoch) == (
        proposal.members,
        proposal.partition_epoch,
    )
