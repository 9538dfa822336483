"""What must hold in every state, and what has to be remembered for it.

============================ ================================================================================
promise                      in every state
============================ ================================================================================
one leader per epoch         no epoch was ever led by two nodes
committed records stay       a record below any high watermark never changes
leaders are complete         a new leader holds everything that was ever below a high watermark
members are complete         where the controllers appoint leaders: so does every replica they could appoint
counting voters are intact   where replicas vote: one that lost its data and counts again has caught up since
============================ ================================================================================

An acknowledged record is below its leader's high watermark, so the same holds for it.
"""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.protocol.records import control_type, decode_batch
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Role
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.votes import elects_itself

if TYPE_CHECKING:
    from tidelog.sim.explore.world import World


class Seen(NamedTuple):
    """What was observed on the way to a state."""

    committed: tuple[bytes, ...] = ()  # by offset, once it was below a watermark
    leaders: tuple[tuple[int, int], ...] = ()  # (epoch, node)
    losses: tuple[tuple[int, int], ...] = ()  # (node, how much was committed when it lost its data)
    produced: int = 0

    def lost_by(self, number: int) -> "Seen":
        others = [loss for loss in self.losses if loss[0] != number]
        return self._replace(losses=tuple(sorted([*others, (number, len(self.committed))])))


def look(world: "World") -> None:
    """Observe a new state. Raises Violation."""
    for number in world.running:
        _look_at(world, number)
    _look_at_members(world)


def _look_at(world: "World", number: int) -> None:
    driver = world.node(number).driver
    if driver is None:
        return
    replica, rows = driver.replica, world.rows(number)
    if replica.role is Role.LEADER:
        _began(world, number, replica.epoch)
    committed = rows[: replica.high_watermark]
    known = world.seen.committed
    for offset, (mine, before) in enumerate(zip(committed, known, strict=False)):
        if mine != before:
            was = f"before it was {text(before)}"
            raise Violation(f"offset {offset}: node {number} takes {text(mine)} for committed, {was}")
    if len(committed) > len(known):
        world.seen = world.seen._replace(committed=committed)


def _began(world: "World", number: int, epoch: int) -> None:
    leaders = dict(world.seen.leaders)
    if leaders.get(epoch, number) != number:
        raise Violation(f"nodes {leaders[epoch]} and {number} lead epoch {epoch}")
    if epoch in leaders:
        return
    world.seen = world.seen._replace(leaders=tuple(sorted({**leaders, epoch: number}.items())))
    missing = lacks(world, number, len(world.seen.committed))
    if missing and world.partition.unclean_epoch != epoch:
        raise Violation(f"node {number} leads epoch {epoch} and lacks {missing}, which was committed")


def lacks(world: "World", number: int, end_offset: int) -> str:
    """The first of the committed records before ``end_offset`` that is not in a node's log."""
    rows = world.rows(number)
    for offset, before in enumerate(world.seen.committed[:end_offset]):
        if offset >= len(rows) or rows[offset] != before:
            return f"offset {offset}, {text(before)}"
    return ""


def _look_at_members(world: "World") -> None:
    partition = world.partition
    # A replica whose log has failed is skipped, and removed when it reports its repair.
    members = [each for each in (*partition.in_sync, *partition.eligible) if each not in partition.offline]
    if elects_itself(partition):
        losses = dict(world.seen.losses)
        for member in members:
            missing = lacks(world, member, losses.get(member, 0))
            if missing:
                raise Violation(f"node {member} counts as a voter that forgot nothing and lacks {missing}")
    elif MODES[partition.mode].successors.are_appointed:
        for member in members:
            missing = lacks(world, member, len(world.seen.committed))
            if missing:
                raise Violation(f"node {member} may be made leader and lacks {missing}, which was committed")


def text(row: bytes) -> str:
    """A batch in few words."""
    (record,) = decode_batch(row)
    kind = control_type(record.key) if record.key is not None else None
    epoch = int.from_bytes(row[12:16], "big")
    name = (record.value or b"").decode() if kind is None else getattr(kind, "name", str(kind)).lower()
    return f"{name} of epoch {epoch}"
