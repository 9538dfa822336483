"""The seeds of a whole cluster can find bugs: each mutation breaks one rule, and one of a bounded number of
seeds must notice. Most are noticed by every other seed.

A checker that catches no mutation is not finished; a mutation that nobody catches shows a rule without a
guard. Where a rule matters only under some faults or settings, the seeds are drawn among those.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from noticing import notice

from tidelog.broker.handlers.fetch import PendingFetch
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.node.node import Node
from tidelog.broker.partitions.assigning import AppointedAssigner, ElectedAssigner
from tidelog.broker.partitions.partition import Partition
from tidelog.controller import brokers, leader_assignment, logs
from tidelog.controller.image import ClusterImage
from tidelog.controller.successions import isr, steps
from tidelog.log.producers import ProducerStates
from tidelog.protocol import batch as batches
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import Commit, Truncate
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.replica import Replica, Role
from tidelog.replication.view import YES
from tidelog.sim.plan import ProducerPlan, WeatherPlan

MAX_SEEDS = 30

Patch = Callable[[pytest.MonkeyPatch], None]


# --- what a follower does -----------------------------------------------------------------------------------


def ignore_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader never says that a follower's history is another one."""
    patch.setattr("tidelog.replication.replica.divergence", lambda *histories: None)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """What Kafka did before leader epochs: a follower drops everything above its watermark, and what is left
    must be right.
    """
    original = Replica.follow

    def follow(self: Replica, *args: Any) -> Any:
        effects = original(self, *args)
        return [*effects, Truncate(max(self.high_watermark, self.log.start_offset))]

    patch.setattr("tidelog.replication.replica.divergence", lambda *histories: None)
    patch.setattr(Replica, "follow", follow)


def fetch_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """A follower asks for more, and so acknowledges, before its disk has what it got."""
    patch.setattr(
        ReplicaDriver, "may_fetch", property(lambda self: not self.closed and self.log.failure is None)
    )


def take_any_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new leader's watermark may be older than what a follower knows; it takes it over all the same."""

    def received(self: Replica, epoch: int, leader_high_watermark: int) -> Any:
        if self.role is not Role.FOLLOWER or epoch != self.epoch:
            return []
        self.watermark.offset = min(leader_high_watermark, self.log.end_offset)
        return [Commit(self.high_watermark)]

    patch.setattr(Replica, "received", received)


def wait_for_the_newest_answer_only(patch: pytest.MonkeyPatch) -> None:
    """An answer that is lost is not missed while newer asks are answered."""
    original = FetchLoop.answered

    def answered(self: FetchLoop, got: Any, now_ms: int) -> None:
        original(self, got, now_ms)
        self._unanswered.clear()

    patch.setattr(FetchLoop, "answered", answered)


# --- what a leader does -------------------------------------------------------------------------------------


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    """The leader's own copy is enough for acks=all."""
    patch.setattr(IsrPolicy, "acknowledged", lambda self, view, end_offset, acks: YES)


def commit_alone(patch: pytest.MonkeyPatch) -> None:
    """The watermark waits for nobody."""
    patch.setattr(IsrPolicy, "committed", lambda self, view: view.durable_end_offset)


def commit_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    """A lone survivor goes on committing, though members that left count as whole."""
    original = IsrPolicy.committed
    patch.setattr(Replica, "min_in_sync", property(lambda self: 1))
    patch.setattr(IsrPolicy, "committed", original)


def forget_pending_joins(patch: pytest.MonkeyPatch) -> None:
    """The watermark does not wait for a follower whose joining is under way: once confirmed, it was a member
    all along.
    """
    original = IsrPolicy.committed

    def committed(self: IsrPolicy, view: Any) -> int:
        joining, view.maximal_in_sync = view.maximal_in_sync, frozenset(view.in_sync)
        try:
            return original(self, view)
        finally:
            view.maximal_in_sync = joining

    patch.setattr(IsrPolicy, "committed", committed)


def shrink_without_the_controller(patch: pytest.MonkeyPatch) -> None:
    """A leader that throws out a member does not wait for the controller to know."""
    original = Replica.tick

    def tick(self: Replica, now_ms: int) -> Any:
        effects = original(self, now_ms)
        proposed = self.proposals.pending
        if proposed is not None and len(proposed) < len(self.in_sync):
            self._set_members(proposed)
            return effects + self._advance()
        return effects

    patch.setattr(Replica, "tick", tick)


def join_too_early(patch: pytest.MonkeyPatch) -> None:
    """A follower becomes a member with its first fetch, however far behind it is."""

    def maybe_join(self: Replica, replica: int, progress: Any) -> Any:
        return [] if self.proposals.pending is not None else self._propose((*self.in_sync, replica))

    patch.setattr(Replica, "_maybe_join", maybe_join)


def never_invite(patch: pytest.MonkeyPatch) -> None:
    """A follower that has nothing to fetch stays outside of the in-sync set."""
    patch.setattr(Replica, "_invite_one", lambda self: [])


def count_earlier_runs(patch: pytest.MonkeyPatch) -> None:
    """What a broker held before it restarted goes on counting."""
    patch.setattr(Replica, "restarted", lambda self, replica, now_ms: None)


def read_past_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """Consumers see what may still be taken back."""
    patch.setattr(Partition, "readable_end_offset", property(lambda self: self.log.end_offset))


def accept_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A batch that comes again is written again."""
    patch.setattr(ProducerStates, "check", lambda self, header, now_ms, refused: None)


def change_what_is_written(patch: pytest.MonkeyPatch) -> None:
    """A byte of a record is not what the producer sent; the checksum is made anew."""
    original = batches.assign_whole

    def assign(buffer: Any, base_offset: int, length: int, leader_epoch: int) -> None:
        original(buffer, base_offset, length, leader_epoch)
        if base_offset % 50 == 7:
            buffer[-2] ^= 1
            batches.write_crc(buffer, 0, len(buffer))

    patch.setattr(batches, "assign_whole", assign)


# --- what a broker tells consumers --------------------------------------------------------------------------


def skip_a_record(patch: pytest.MonkeyPatch) -> None:
    """A fetch now and then begins behind where it was asked to."""
    _fetch_elsewhere(patch, lambda offset: offset + 1 if offset % 40 == 9 else offset)


def begin_before(patch: pytest.MonkeyPatch) -> None:
    """A fetch begins before where it was asked to."""
    _fetch_elsewhere(patch, lambda offset: max(0, offset - 8))


def _fetch_elsewhere(patch: pytest.MonkeyPatch, place: Callable[[int], int]) -> None:
    original = PendingFetch._read_partition

    def read(self: PendingFetch, key: Any, wanted: Any, *rest: Any, **options: Any) -> Any:
        moved = wanted._replace(fetch_offset=place(wanted.fetch_offset), last_fetched_epoch=-1)
        return original(self, key, moved, *rest, **options)

    patch.setattr(PendingFetch, "_read_partition", read)


# --- what the controllers do --------------------------------------------------------------------------------


def lead_an_old_epoch_again(patch: pytest.MonkeyPatch) -> None:
    """A process acts on metadata from before it registered, and so leads what an earlier run of it led."""

    def changed(self: Node, image: ClusterImage) -> None:
        self._apply(image)
        me = image.brokers.get(self.me)
        if me is not None:
            self.membership.metadata_says(me.broker_epoch, fenced=me.fenced)
        self.membership.hurry()

    patch.setattr(Node, "_act_on", changed)


def reuse_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader goes on in its predecessor's epoch."""
    original = steps.led_by

    def led_by(partition: Any, leader: int, *args: Any, **options: Any) -> Any:
        new = original(partition, leader, *args, **options)
        return msgspec.structs.replace(new, leader_epoch=partition.leader_epoch)

    patch.setattr(isr, "led_by", led_by)


def take_old_proposals(patch: pytest.MonkeyPatch) -> None:
    """Whether a leader's proposal rests on the present state of its partition does not matter."""
    original = leader_assignment.change_in_sync

    def change_in_sync(image: ClusterImage, proposal: Any, *args: Any, **options: Any) -> Any:
        topic = image.topic_by_id(proposal.topic_id)
        if topic is not None:
            partition = topic.partitions[proposal.partition]
            proposal = proposal._replace(
                leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch
            )
        return original(image, proposal, *args, **options)

    patch.setattr(leader_assignment, "change_in_sync", change_in_sync)


def elect_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whoever is alive may lead, whether it holds everything or not."""
    original = isr._led_by_other

    def led_by_other(partition: Any, alive: Any, rules: Any) -> Any:
        return original(partition, alive, rules._replace(unclean_allowed=True))

    patch.setattr(isr, "_led_by_other", led_by_other)


def forget_nothing(patch: pytest.MonkeyPatch) -> None:
    """A broker that lost power stays a member, though it may lack what it acknowledged."""
    patch.setattr(brokers, "_forget", lambda *args, **options: iter(()))


def keep_everybody_eligible(patch: pytest.MonkeyPatch) -> None:
    """Who left the in-sync set while it was large enough counts as whole, though others committed since."""
    original = isr._led_by_member

    def led_by_member(partition: Any, *args: Any, **options: Any) -> Any:
        new = original(partition, *args, **options)
        gone = tuple(each for each in partition.replicas if each not in new.in_sync)
        return msgspec.structs.replace(new, eligible=gone)

    patch.setattr(isr, "_led_by_member", led_by_member)


def miss_a_decision(patch: pytest.MonkeyPatch) -> None:
    """A node leaves out some records of the metadata log."""
    original = MetadataQuorum._read_on

    def read_on(self: MetadataQuorum) -> None:
        before = self.image
        misses = not self.committed_offset % 9 and self.driver.replica.me == 2
        original(self)
        if misses:
            self._image = before

    patch.setattr(MetadataQuorum, "_read_on", read_on)


def forget_the_assignment(patch: pytest.MonkeyPatch) -> None:
    """A broker misses every fourth change of a partition."""
    calls = [0]

    def missing(original: Callable[..., None]) -> Callable[..., None]:
        def assign(self: Any, *args: Any) -> None:
            calls[0] += 1
            if calls[0] % 4:
                original(self, *args)

        return assign

    for assigner in (AppointedAssigner, ElectedAssigner):
        patch.setattr(assigner, "assign", missing(assigner.assign))


def join_for_what_was_dropped(patch: pytest.MonkeyPatch) -> None:
    """A replica that has dropped damaged records still counts for what it had fetched before."""
    patch.setattr(logs, "in_a_new_epoch", lambda partition: partition)


class Mutation(NamedTuple):
    patch: Patch
    wanted: dict[str, Any] = {}  # noqa: RUF012 - what the seeds are about; never changed


ALL_ACKS = tuple(ProducerPlan(number % 3, -1, True) for number in range(6))
ONE_EACH = ALL_ACKS[:3]
IDLE = ALL_ACKS[:1]  # The other partitions are never written to.
OFTEN_MS = (100, 700)

SHRINKING = {"faults": ("network", "process", "slow disk"), "min_in_sync": 2}
FORGETFUL = {"faults": ("power", "restart", "cut"), "unclean": False, "producers": ALL_ACKS}

MUTATIONS = [
    Mutation(ignore_divergence),
    Mutation(truncate_to_the_watermark, {"faults": ("kill", "restart"), "producers": ALL_ACKS}),
    Mutation(
        fetch_before_the_sync,
        {"faults": ("worst moment",), "synced": True, "producers": ALL_ACKS, "pace_ms": OFTEN_MS},
    ),
    Mutation(
        take_any_watermark,
        {"faults": ("kill", "slow network"), "weather": WeatherPlan(lost=0.1), "pace_ms": OFTEN_MS},
    ),
    Mutation(
        wait_for_the_newest_answer_only,
        {
            "faults": ("slow network",), "weather": WeatherPlan(lost=0.02), "producers": ALL_ACKS,
            "faults_ms": 3000, "rounds": 8,
        },
    ),
    Mutation(acknowledge_at_once),
    Mutation(commit_alone),
    Mutation(
        commit_below_the_minimum,
        {**SHRINKING, "faults": ("strand", "kill"), "controllers": 3, "producers": ALL_ACKS},
    ),
    Mutation(forget_pending_joins, {"faults": ("flap", "slow network", "restart"), "producers": ALL_ACKS}),
    Mutation(shrink_without_the_controller, SHRINKING),
    Mutation(join_too_early, {"faults": ("kill", "slow network"), "producers": ALL_ACKS}),
    Mutation(never_invite, {"faults": ("restart", "kill"), "producers": IDLE}),
    Mutation(
        count_earlier_runs,
        {
            "faults": ("blink",), "synced": False, "producers": ONE_EACH, "controllers": 0,
            "weather": WeatherPlan(late=0.3, late_ms=150), "pace_ms": OFTEN_MS,
        },
    ),
    Mutation(join_for_what_was_dropped, {"faults": ("flipped bit", "kill"), "pace_ms": (50, 400)}),
    Mutation(read_past_the_watermark),
    Mutation(accept_duplicates, {"producers": ALL_ACKS}),
    Mutation(change_what_is_written),
    Mutation(skip_a_record),
    Mutation(begin_before),
    Mutation(lead_an_old_epoch_again),
    Mutation(reuse_the_epoch),
    Mutation(
        take_old_proposals,
        {"faults": ("strand", "desert", "old letters"), "producers": ALL_ACKS, "controllers": 3},
    ),
    Mutation(elect_anybody, {"faults": ("desert",), "min_in_sync": 1, "unclean": False}),
    Mutation(forget_nothing, {**FORGETFUL, "faults": ("blink", "power"), "synced": False}),
    Mutation(keep_everybody_eligible, {"faults": ("kill", "strand"), "unclean": False, "controllers": 3}),
    Mutation(miss_a_decision),
    Mutation(forget_the_assignment),
]  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_a_seed_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    notice("isr", mutation.patch.__name__, MAX_SEEDS, mutation.wanted)
