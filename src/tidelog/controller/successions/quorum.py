"""``quorum``: the replicas vote, and the controller records what their leaders report.

=========================== ==================================================================================
in the metadata             meaning
=========================== ==================================================================================
leader, leader epoch        the newest election that its winner has reported; the controller raises no epoch
                            and appoints no leader. No leader while the winner's broker is fenced
in-sync set, eligible       voters that hold what they acknowledged and know how they voted: with available
                            brokers, and with unavailable ones
losses                      all other replicas, each with the number of its latest loss. Such a replica does
                            not vote until its leader has readmitted it for that loss: a readmission names the
                            loss, since a replica may lose data again in the meantime. A replica that is only
                            *late* (it was behind when votes began) has lost nothing, and votes
heir                        the replica that should lead: the leader hands over as soon as the heir holds
                            everything
adding, removing            voters that the leader adds, one at a time as they catch up, and then removes, one
                            at a time; done when it reports the target's set
voters                      the set that it last reported in the meantime. It waits for that report before its
                            next step, so the controllers are never more than one step behind
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
    NextState,
    Rules,
    finish_move,
    serves,
)
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER, majority


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers started or failed. Equal to the present one if nothing has to change."""
    members = (*partition.in_sync, *partition.eligible)
    voters = tuple(voter for voter in partition.replicas if voter in members)
    in_sync = tuple(voter for voter in voters if serves(partition, voter, available))
    eligible = tuple(voter for voter in voters if voter not in in_sync)
    leader = partition.leader if partition.leader in available.unfenced else NO_BROKER
    assigned = msgspec.structs.replace(partition, leader=leader, in_sync=in_sync, eligible=eligible)
    heir = _heir(assigned, available)
    return assigned if heir == assigned.heir else msgspec.structs.replace(assigned, heir=heir)


def _heir(partition: PartitionImage, available: BrokerAvailability) -> int:
    """The replica that should replace the present leader: the requested one, as long as it can lead;
    otherwise another one if the leader is drained, shutting down or damaged.
    """
    leader = partition.leader
    if leader == NO_BROKER:
        return NO_BROKER
    others = [voter for voter in partition.in_sync if voter != leader]
    able = [voter for voter in others if voter in available.willing]
    if not able and leader in partition.offline:
        # A damaged log is repaired only once another replica leads. Even a replica whose broker is drained or
        # shutting down is better than a leader that stays damaged forever.
        able = others
    if partition.heir in able:
        return partition.heir
    stays = leader in available.willing and leader not in partition.offline
    return NO_BROKER if stays or not able else available.best(able)


def hand_over(partition: PartitionImage, heir: int) -> PartitionImage:
    """Ask the leader to hand over to another replica."""
    return msgspec.structs.replace(partition, heir=heir)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """On request of an operator: the first available replica becomes the only voter, in a new period of
    voting, and continues with the records that it has. All others start as new replicas and are added as they
    catch up, so every voter set in an earlier log is void. Records that only the others hold are lost.
    """
    available_replicas = [replica for replica in partition.target if serves(partition, replica, available)]
    if not available_replicas:
        return msgspec.structs.replace(partition, leader=NO_BROKER)
    first = available_replicas[0]
    others = tuple(replica for replica in partition.target if replica != first)
    # Voters that do not know of it yet may still elect a leader; no epoch may be led twice.
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
    """Whether enough voters that kept their data are available to elect a leader. Whether there is a leader
    at the moment says less: it steps down without telling the controllers when it hears no majority. During a
    reassignment they must also be enough in the set that a leader may have written since its last report.
    Otherwise an operator's request would be refused though no leader can be elected.
    """
    voters = partition.known_voters
    late = {loss.replica for loss in partition.losses if loss.late}
    if not is_lone(partition):
        late.difference_update(partition.adding)
    able = {voter for voter in partition.remember | late if serves(partition, voter, available)}
    return all(len(able & each) >= majority(len(each)) for each in (voters, *_next_sets(partition, voters)))


def _next_sets(partition: PartitionImage, voters: frozenset[int]) -> Iterator[frozenset[int]]:
    """The sets that a reassignment may turn these voters into in one step. A leader may have added a replica
    before it heard that the reassignment was cancelled or got another target.
    """
    joining = {*partition.target, *partition.adding}.difference(voters)
    yield from (voters | {replica} for replica in joining)
    if voters.issuperset(partition.target):
        yield from (voters - {replica} for replica in voters.difference(partition.target))


def is_lone(partition: PartitionImage) -> bool:
    """Whether all replicas but one are still being added. Only that one, and those that it has added, can ask
    for votes: a voter with an old set, from a time when the others were voters before, cannot.
    """
    return len(set(partition.replicas).difference(partition.adding)) == 1 == len(partition.remember)


def numbered(partition: PartitionImage, *, founded: bool) -> PartitionImage:
    """A replica that does not hold what it acknowledged can be readmitted only for a numbered loss. New
    replicas, and those that were behind at a change of mode, have lost nothing, but must not be mistaken for
    an earlier replica with the same id. ``founded``: votes begin with this state, so no replica has
    acknowledged or voted before.
    """
    number = partition.partition_epoch + 1
    losses = tuple(
        partition.loss_of(replica) or Loss(replica, number, late=founded or replica in partition.adding)
        for replica in partition.replicas
        if replica not in partition.remember
    )
    return partition if losses == partition.losses else msgspec.structs.replace(partition, losses=losses)


def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
    """A replica may lack records that it acknowledged. It gets a new number even if it has not been
    readmitted yet: the pending readmission may rely on records that are lost now. A replica that once lost
    more than its unsynced tail does not become one that lost only its tail by another power failure, unless
    its log shows that it was readmitted in between.
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


def told(partition: PartitionImage, report: LeaderReport, to_next_state: NextState) -> PartitionImage:
    """The winner of an election reports it. Raises if the report is outdated."""
    leader, epoch, voters, counted = report
    if leader == NO_BROKER:
        # The replicas vote again: a winner's epoch is above all in which a majority has voted.
        return partition
    known = (partition.leader_epoch, partition.leader)
    if epoch < partition.leader_epoch or (epoch == known[0] and known[1] not in (NO_BROKER, leader)):
        raise TidelogError("the leader or its epoch has changed", ErrorCode.FENCED_LEADER_EPOCH)
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
    return to_next_state(new)


def unforgetful(partition: PartitionImage) -> AbstractSet[int]:
    """Only its loss number shows that a replica has lost records since, in the same process."""
    return partition.remember


def no_restoring(partition: PartitionImage) -> bool:
    """An elected leader holds everything."""
    return False


def no_new_epoch(partition: PartitionImage) -> PartitionImage:
    """A voter that lost data is not counted until it was readmitted, so no new epoch is needed."""
    return partition


def any_leader(partition: PartitionImage, leader: int, leader_epoch: int, partition_epoch: int) -> None:
    """Any leader is accepted: the controllers may not know of the election yet."""


def stand_in(partition: PartitionImage, present: AbstractSet[int], *, undecided: bool) -> int:
    """The replica that serves readers while there is no leader: any voter can serve what is known to be
    committed.
    """
    able = [voter for voter in partition.replicas if voter in present and voter not in partition.offline]
    return min(able, key=lambda voter: voter not in partition.in_sync, default=NO_BROKER)
