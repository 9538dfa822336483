"""Whatever brokers, disks and operators do, in any order: the rules about leaders hold, and nobody who lacks
a committed record leads a partition unless its epoch says so.

Beside the image runs a model of the logs: how many committed records each replica holds. The leader commits
when enough are in sync, by its own count; only members get what is committed; who forgets holds nothing.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.config import BrokerConfig
from tidelog.controller import brokers, configs, leader_assignment, leadership, logs, reassignment
from tidelog.controller.availability import DRAIN_SETTING, BrokerAvailability
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import BrokerRegistered, MetadataRecord, TopicCreated
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions.steps import RulesOf, minimum
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import fence, leave, unfence

pytestmark = pytest.mark.slow

TOPIC_ID = UUID(int=9)
BROKERS = range(1, 6)
broker_ids = st.sampled_from(BROKERS)
minimums = st.sampled_from(["1", "2", "3"])
flags = st.sampled_from(["true", "false"])
targets = st.permutations(BROKERS).flatmap(
    lambda order: st.integers(1, 4).map(lambda count: tuple(order[:count]))
)


class ClusterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rulebook = Rulebook(BrokerConfig.parse({}))
        self.image = ClusterImage()
        self.committed = 0
        self.holds = dict.fromkeys(BROKERS, 0)
        self.runs = 0
        self.given_up: list[InSyncProposal] = []  # Proposals that were refused.

    @initialize(replicas=targets)
    def found(self, replicas: tuple[int, ...]) -> None:
        registered = [self._registration(broker, fenced=False) for broker in BROKERS]
        self.image = self.image.apply([*registered, TopicCreated("t", TOPIC_ID, [list(replicas)], {})])

    def _registration(self, broker: int, *, fenced: bool = True) -> BrokerRegistered:
        self.runs += 1
        return BrokerRegistered(broker, UUID(int=self.runs), "h", 1, None, self.runs, fenced)

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics["t"].partitions[0]

    def decide(self, decide: Callable[[], Sequence[MetadataRecord]]) -> bool:
        """Apply what is decided, and see that it only moves forward. False when it is refused."""
        try:
            records = decide()
        except TidelogError:
            return False
        before, self.image = self.partition, self.image.apply(records)
        now = self.partition
        assert now.leader_epoch >= before.leader_epoch
        assert now.leader == before.leader or now.leader_epoch > before.leader_epoch
        assert now.unclean_epoch >= before.unclean_epoch
        if now.unclean_epoch > before.unclean_epoch and now.leader > 0:
            self.committed = self.holds[now.leader]  # Given up, and said so.
            self.holds = {broker: min(held, self.committed) for broker, held in self.holds.items()}
        return True

    @property
    def rules_of(self) -> RulesOf:
        return self.rulebook.at(self.image)

    # --- brokers --------------------------------------------------------------------------------------------

    @rule(broker=broker_ids)
    def fence(self, broker: int) -> None:
        node = self.image.brokers.get(broker)
        if node is not None and not node.fenced:
            self.decide(lambda: fence(self.image, broker, self.rules_of))

    @rule(broker=broker_ids)
    def unfence(self, broker: int) -> None:
        node = self.image.brokers.get(broker)
        if node is not None and node.fenced:
            self.decide(lambda: unfence(self.image, broker, self.rules_of))

    @rule(broker=broker_ids, forgot=st.booleans(), empty=st.booleans())
    def restart(self, broker: int, forgot: bool, empty: bool) -> None:
        if forgot or empty:
            self.holds[broker] = 0
        again = self._registration(broker)
        known = broker in self.image.brokers
        self.decide(
            lambda: brokers.register(
                self.image, again, self.rules_of, forgot=forgot, empty=empty or not known
            )
        )

    @rule(broker=broker_ids)
    def leave(self, broker: int) -> None:
        node = self.image.brokers.get(broker)
        if node is not None and not node.fenced:
            self.decide(lambda: leave(self.image, broker, self.rules_of))

    @rule(broker=broker_ids)
    def unregister(self, broker: int) -> None:
        self.decide(lambda: brokers.unregister(self.image, broker))

    @rule(broker=broker_ids, value=flags)
    def drain(self, broker: int, value: str) -> None:
        self.decide(
            lambda: configs.change_broker(self.image, str(broker), {DRAIN_SETTING: value}, self.rulebook)
        )

    # --- logs -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.partition.leader > 0)
    @rule()
    def commit(self) -> None:
        now = self.partition
        if now.leader in now.offline:
            return  # It is only read.
        minimum = self.rules_of(self.image.topics["t"]).min_in_sync
        if len(now.in_sync) >= min(minimum, len(now.replicas)):
            self.committed += 1
            self.holds.update(dict.fromkeys(now.in_sync, self.committed))

    @precondition(lambda self: self.partition.leader > 0)
    @rule(broker=broker_ids, joins=st.booleans(), late=st.integers(0, 1))
    def change_in_sync(self, broker: int, joins: bool, late: int) -> None:
        now = self.partition
        others = [member for member in now.in_sync if member != broker]
        members = (*others, broker) if joins else tuple(others)
        epoch = self.image.brokers[now.leader].broker_epoch
        proposal = InSyncProposal(
            now.leader, epoch, TOPIC_ID, 0, now.leader_epoch, now.partition_epoch - late, members
        )
        joined = joins and broker not in now.in_sync
        # Who joins has fetched everything; the leader waits for it before it commits anything more.
        held = self.holds[broker]
        if joined:
            self.holds[broker] = self.holds[now.leader]
        if joined and not self.propose(proposal):
            self.holds[broker] = held
        elif not joined:
            self.propose(proposal)

    def propose(self, proposal: InSyncProposal) -> bool:
        """Whether it was taken. Who was refused is given up: no copy of that proposal may be taken later."""
        error = ErrorCode.NONE

        def decide() -> list[MetadataRecord]:
            nonlocal error
            records, error = leader_assignment.change_in_sync(self.image, proposal, self.rules_of)
            return records

        taken = self.decide(decide) and error is ErrorCode.NONE
        if error is ErrorCode.INELIGIBLE_REPLICA and not set(proposal.members) <= set(self.partition.in_sync):
            self.given_up.append(proposal)
        return taken

    @precondition(lambda self: self.given_up)
    @rule(place=st.integers(0, 99))
    def copy_arrives_late(self, place: int) -> None:
        assert not self.propose(self.given_up[place % len(self.given_up)])

    @rule(broker=broker_ids, damaged=st.booleans())
    def fail_log(self, broker: int, damaged: bool) -> None:
        node, tell = self.image.brokers.get(broker), logs.take_offline if damaged else logs.fail
        if node is not None:
            key = [(TOPIC_ID, 0)]
            self.decide(lambda: tell(self.image, broker, node.broker_epoch, key, self.rules_of))

    @rule(broker=broker_ids)
    def heal_log(self, broker: int) -> None:
        node = self.image.brokers.get(broker)
        if node is not None and broker in self.partition.offline:
            self.holds[broker] = 0
            key = [(TOPIC_ID, 0)]
            self.decide(lambda: logs.bring_online(self.image, broker, node.broker_epoch, key, self.rules_of))

    # --- operators ------------------------------------------------------------------------------------------

    @rule(replicas=targets)
    def reassign(self, replicas: tuple[int, ...]) -> None:
        self.decide(lambda: reassignment.begin(self.image, "t", 0, replicas, self.rules_of))

    @rule()
    def cancel(self) -> None:
        self.decide(lambda: reassignment.cancel(self.image, "t", 0, self.rules_of))

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        self.decide(lambda: leadership.elect(self.image, "t", 0, self.rules_of, unclean=unclean))

    @rule()
    def balance(self) -> None:
        self.decide(lambda: leadership.balance(self.image))

    @rule(minimum=minimums, unclean=flags)
    def change_topic(self, minimum: str, unclean: str) -> None:
        wanted = {"min.insync.replicas": minimum, "unclean.leader.election.enable": unclean}
        self.decide(lambda: configs.change_topic(self.image, "t", wanted, self.rulebook))

    @rule(minimum=minimums)
    def change_all_brokers(self, minimum: str) -> None:
        wanted = {"min.insync.replicas": minimum}
        self.decide(lambda: configs.change_broker(self.image, "", wanted, self.rulebook))

    # --- what must hold -------------------------------------------------------------------------------------

    @precondition(lambda self: self.image.topics)
    @invariant()
    def the_image_makes_sense(self) -> None:
        now = self.partition
        replicas = set(now.replicas)
        assert len(replicas) == len(now.replicas) > 0
        assert replicas.issuperset((*now.in_sync, *now.eligible, *now.offline, *now.adding, *now.removing))
        assert not set(now.adding) & set(now.removing)
        assert not set(now.in_sync) & set(now.eligible)
        if now.leader != -1:
            rules = self.rules_of(self.image.topics["t"])
            # A leader whose log has failed commits nothing more, whatever the minimum is.
            fails = now.leader in now.offline
            assert not now.eligible or fails or len(now.in_sync) < minimum(now, rules)
            unfenced = BrokerAvailability.of(self.image).unfenced
            # The last member that lost power is named outside the set: it asks the others before it leads.
            asks_first = not now.in_sync and not now.eligible and now.leader == now.last_leader
            assert now.leader in now.in_sync or (asks_first and now.leader in unfenced)
            able = unfenced - set(now.offline)
            if now.leader in now.offline:
                # It takes no writes and is only read, because no other member could lead.
                assert now.leader in unfenced
                assert not able.intersection(now.in_sync)
            else:
                assert able.issuperset(now.in_sync)

    @precondition(lambda self: self.image.topics)
    @invariant()
    def every_member_and_eligible_replica_holds_what_is_committed(self) -> None:
        now = self.partition
        for replica in (*now.in_sync, *now.eligible):
            if replica not in now.offline:
                assert self.holds[replica] == self.committed, (replica, now, self.holds, self.committed)

    @precondition(lambda self: self.image.topics)
    @invariant()
    def nothing_is_left_to_decide(self) -> None:
        """Decisions leave nothing behind that brokers' coming and going would have to clean up."""
        assert list(leader_assignment.assign_leaders(self.image, self.rules_of)) == []


ClusterMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnySequence = pytest.mark.filterwarnings("ignore")(ClusterMachine.TestCase)
