"""``quorum``: the replicas vote, and the controller writes down what they tell.

=========================== ==================================================================================
in the metadata             means
=========================== ==================================================================================
leader, leader epoch        the newest election its winner has told of; the controller raises no epoch and
                            elects nobody. No leader while the winner's broker is fenced
in-sync set, eligible       voters that remember what they acknowledged and how they voted: with brokers that
                            serve, and without
losses                      all other replicas, each with the number of its latest loss. Such a replica does
                            not vote until its leader has readmitted it for that loss: a readmission names the
                            loss it heals, since a replica may lose data again meanwhile. One that is only
                            late (it was behind when votes began) has lost nothing, and votes
heir                        who shall lead instead: the leader hands over as soon as the heir holds everything
adding, removing            voters that the leader takes in, one at a time as they have caught up, and then
                            lets go, one at a time; done when it tells of the target's set
voters                      the set that it told of last, meanwhile. It waits for that with its next step, so
                            the controllers are never more than one step behind
=========================== ==================================================================================
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import msgspec

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.records import Loss
from tidelog.controller.successions.steps import (
    EPOCHS_AHEAD,
    LeaderReport,
    Rules,
    Settle,
    finish_move,
    serves,
)
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER, majority


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""
    members = (*partition.in_sync, *partition.eligible)
    voters = tuple(voter for voter in partition.replicas if voter in members)
    in_sync = tuple(voter for voter in voters if serves(partition, voter, available))
    eligible = tuple(voter for voter in voters if voter not in in_sync)
    leader = partition.leader if partition.leader in available.serving else NO_BROKER
    settled = msgspec.structs.replace(partition, leader=leader, in_sync=in_sync, eligible=eligible)
    heir = _heir(settled, available)
    return settled if heir == settled.heir else msgspec.structs.replace(settled, heir=heir)


def _heir(partition: PartitionImage, available: BrokerAvailability) -> int:
    """Who shall lead instead of the present leader: who was asked for, as long as it could; else somebody
    else where the leader is drained or about to stop.
    """
    leader = partition.leader
    if leader == NO_BROKER:
        return NO_BROKER
    others = [voter for voter in partition.in_sync if voter != leader]
    able = [voter for voter in others if voter in available.willing]
    if not able and leader in partition.offline:
        # A damaged log is repaired only once another replica leads. One that would rather not lead, because
        # its broker is drained or stops, is better than a leader that stays damaged for ever.
        able = others
    if partition.heir in able:
        return partition.heir
    stays = leader in available.willing and leader not in partition.offline
    return NO_BROKER if stays or not able else available.best(able)


def hand_over(partition: PartitionImage, heir: int) -> PartitionImage:
    """Ask the leader to let another one lead."""
    return msgspec.structs.replace(partition, heir=heir)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """By an operator's wish: the first replica that serves votes alone, in a new time of votes, and goes on
    with the records it has. All others begin as newcomers and are taken in as they catch up, so every voter
    set that an earlier log tells of is void. What the others hold beyond is given up.
    """
    serving = [replica for replica in partition.target if serves(partition, replica, available)]
    if not serving:
        return msgspec.structs.replace(partition, leader=NO_BROKER)
    first = serving[0]
    others = tuple(replica for replica in partition.target if replica != first)
    # Voters that have not heard of it may still elect somebody; no epoch may be led twice.
    epoch = partition.leader_epoch + EPOCHS_AHEAD
    alone = msgspec.structs.replace(
        partition,
        replicas=(first, *others),
        adding=others,
        removing=(),
        leader=first,
        last_leader=first,
        heir=NO_BROKER,
        leader_epoch=epoch,
        mode_epoch=epoch,
        unclean_epoch=epoch,
        in_sync=(first,),
        eligible=(),
        losses=(),
        voters=(),
    )
    return numbered(alone, founded=True)


def is_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    """Whether enough voters that remember are there to elect a leader. Whether one leads at this moment says
    less: it steps down without a word to the controllers when it hears no majority. While replicas are moved,
    they must be enough also in the set that a leader may have written since it told of the last one:
    otherwise nobody could lead, and the operator would be refused.
    """
    voters = partition.known_voters
    late = {loss.replica for loss in partition.losses if loss.late}
    if not is_lone(partition):
        late.difference_update(partition.adding)
    able = {voter for voter in partition.remember | late if serves(partition, voter, available)}
    return all(len(able & each) >= majority(len(each)) for each in (voters, *_next_sets(partition, voters)))


def _next_sets(partition: PartitionImage, voters: frozenset[int]) -> Iterator[frozenset[int]]:
    """What a move may make of these voters in one step."""
    missing = [replica for replica in partition.target if replica not in voters]
    yield from (voters | {replica} for replica in missing)
    if not missing:
        yield from (voters - {replica} for replica in voters.difference(partition.target))


def is_lone(partition: PartitionImage) -> bool:
    """Whether all replicas but one are still coming. Nobody but that one, and those it takes in, can ask for
    votes: not a voter with an old set, from a time when the others were voters before.
    """
    return len(set(partition.replicas).difference(partition.adding)) == 1 == len(partition.remember)


def numbered(partition: PartitionImage, *, founded: bool) -> PartitionImage:
    """Whoever does not remember can be readmitted only by a number: newcomers, and those that a change of
    mode found behind, have lost nothing, but must not be taken for an earlier self of theirs. ``founded``:
    votes begin with this, so nobody has acknowledged anything or voted before.
    """
    number = partition.partition_epoch + 1
    losses = tuple(
        partition.loss_of(replica) or Loss(replica, number, late=founded or replica in partition.adding)
        for replica in partition.replicas
        if replica not in partition.remember
    )
    return partition if losses == partition.losses else msgspec.structs.replace(partition, losses=losses)


def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
    """A replica may lack what it acknowledged. A new number also for one that has not been readmitted yet:
    the readmission under way may count on what is gone now. Who once lost more than its unsynced tail does
    not become one that lost only that by another power failure, unless its log shows that it was readmitted
    in between.
    """
    if replica not in partition.replicas:
        return partition
    before = partition.loss_of(replica)
    number = partition.partition_epoch + 1
    if not tail or (before is None and replica not in partition.remember):
        loss = Loss(replica, number)
    elif before is None or replica in partition.remember:
        loss = Loss(replica, number, tail=True)
    else:
        loss = Loss(replica, number, tail=True, base=before.base if before.tail else before.number)
    others = (each for each in partition.losses if each.replica != replica)
    return msgspec.structs.replace(partition, losses=(*others, loss))


def told(partition: PartitionImage, report: LeaderReport, settle: Settle) -> PartitionImage:
    """The winner of an election tells of it. Raises when that is no news."""
    leader, epoch, voters, counted = report
    known = (partition.leader_epoch, partition.leader)
    if epoch < partition.leader_epoch or (epoch == known[0] and known[1] not in (NO_BROKER, leader)):
        raise TidelogError("another leader or epoch by now", ErrorCode.FENCED_LEADER_EPOCH)
    heir = NO_BROKER if partition.heir == leader else partition.heir
    new = msgspec.structs.replace(
        partition,
        leader=leader,
        leader_epoch=epoch,
        last_leader=leader,
        heir=heir,
        in_sync=tuple(voter for voter in partition.replicas if voter in counted),
        eligible=(),
    )
    if voters and partition.is_moving:
        if set(voters) == set(partition.target):
            new = finish_move(new)
        else:
            new = msgspec.structs.replace(new, voters=tuple(sorted(voters)))
    return settle(new)


def unforgetful(partition: PartitionImage) -> AbstractSet[int]:
    """Nothing but its number tells of one that has lost records since, in the same process."""
    return partition.remember


def no_restoring(partition: PartitionImage) -> bool:
    """Who was elected holds everything."""
    return False


def no_new_epoch(partition: PartitionImage) -> PartitionImage:
    """Who votes counts for nothing anyway until it was taken in anew."""
    return partition


def any_leader(partition: PartitionImage, leader: int, leader_epoch: int, partition_epoch: int) -> None:
    """The controllers may not have heard of the election yet."""


def stand_in(partition: PartitionImage, present: AbstractSet[int]) -> int:
    """Who serves readers while nobody leads: what is known to be committed can be read from any voter."""
    able = [voter for voter in partition.replicas if voter in present and voter not in partition.offline]
    return min(able, key=lambda voter: voter not in partition.in_sync, default=NO_BROKER)
