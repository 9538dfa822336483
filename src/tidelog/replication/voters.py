"""Who may vote, as the log itself says it.

A voter is a number *and* a disk: ``directory`` is the id of the data directory it voted and acknowledged
with. A voter that comes back with another disk has forgotten its votes and its records, so it counts for
nothing until the others have taken it in anew. A voter whose directory nobody has learnt yet (the settings
name only numbers and addresses) counts with any.

Sets are control records of the log they govern. A set is in force from the moment it is written, not from
when it is committed; where the record is cut off again, the set before it is in force again. Since one voter
at a time comes or goes, every majority of a set has a member in common with every majority of the set before.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

import msgspec

from tidelog.errors import StorageError
from tidelog.invariant import invariant
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import ControlType, Record, control_key, decode_batch, encode_batch
from tidelog.types import majority

_KEY = control_key(ControlType.KRAFT_VOTERS)
NO_OFFSET = -1


class Voter(msgspec.Struct, frozen=True):
    voter_id: int
    directory: UUID | None = None  # None: not learnt yet, any will do
    host: str = ""
    port: int = 0
    # Of a replica that lost data and was readmitted: the number of the loss that this heals. -1: it has been
    # a voter from the beginning.
    heals: int = -1


class _Record(msgspec.Struct, omit_defaults=True):
    """A set of voters in the log."""

    voters: list[Voter]
    returning: list[Voter] = []
    version: int = 0


class VoterSet:
    """Immutable. ``returning`` are no voters: they were, came back with another disk, and will be voters
    again as soon as the set without them is committed.
    """

    __slots__ = ("_by_id", "ids", "majority", "returning")

    def __init__(self, voters: Iterable[Voter], returning: Iterable[Voter] = ()) -> None:
        self._by_id = {voter.voter_id: voter for voter in sorted(voters, key=lambda voter: voter.voter_id)}
        self.ids = frozenset(self._by_id)
        self.majority = majority(len(self._by_id))
        self.returning = tuple(returning)

    @classmethod
    def of(cls, ids: Iterable[int]) -> "VoterSet":
        return cls(Voter(voter_id) for voter_id in ids)

    def __contains__(self, voter_id: int) -> bool:
        return voter_id in self._by_id

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VoterSet):
            return NotImplemented
        return self._by_id == other._by_id and self.returning == other.returning

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(map(str, sorted(self.ids)))})"

    def get(self, voter_id: int) -> Voter | None:
        return self._by_id.get(voter_id)

    def counts(self, voter_id: int, directory: UUID | None) -> bool:
        """Whether what this node says with this disk counts."""
        voter = self._by_id.get(voter_id)
        return voter is not None and (voter.directory is None or voter.directory == directory)

    def including(self, voter: Voter) -> "VoterSet":
        others = [each for each in self if each.voter_id != voter.voter_id]
        still = [each for each in self.returning if each.voter_id != voter.voter_id]
        return VoterSet([*others, voter], still)

    def without(self, voter_id: int, returning: Voter | None = None) -> "VoterSet":
        others = [each for each in self if each.voter_id != voter_id]
        still = [each for each in self.returning if each.voter_id != voter_id]
        return VoterSet(others, still if returning is None else [*still, returning])

    def is_safe_after(self, before: "VoterSet") -> bool:
        """Whether every majority of this set meets every majority of the one before."""
        return len(self) > 0 and len(self.ids ^ before.ids) <= 1


def encode_set(voters: VoterSet) -> bytes:
    return msgspec.json.encode(_Record(list(voters), list(voters.returning)))


def decode_set(data: bytes) -> VoterSet:
    try:
        record = msgspec.json.decode(data, type=_Record)
        return VoterSet(record.voters, record.returning)
    except msgspec.DecodeError as error:
        raise StorageError(f"a set of voters cannot be read: {error}; is it from a newer version?") from None


def encode_batch_of(voters: VoterSet, offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The set as one control batch, ready to be appended."""
    record = Record(offset, now_ms, _KEY, encode_set(voters), ())
    return encode_batch([record], leader_epoch=leader_epoch, control=True)


def sets_in(batches: memoryview) -> Iterator[tuple[int, VoterSet]]:
    """(offset, set) of every set of voters in these batches. Ordinary batches cost a look at their header."""
    for position, header in iterate(batches):
        if header.is_control:
            for record in decode_batch(batches[position : position + header.size]):
                if record.key == _KEY:
                    yield record.offset, decode_set(record.value or b"")


class VoterHistory:
    """All sets in one log, oldest first; the last one is in force."""

    def __init__(self, first: VoterSet) -> None:
        # (offset of its record, set); the first one comes from the settings, or from a snapshot.
        self._entries: list[tuple[int, VoterSet]] = [(NO_OFFSET, first)]

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> int:
        """Of the record of the latest set; -1 when no record in the log tells it."""
        return self._entries[-1][0]

    @property
    def entries(self) -> tuple[tuple[int, VoterSet], ...]:
        return tuple(self._entries)

    @classmethod
    def of(cls, entries: Iterable[tuple[int, VoterSet]]) -> "VoterHistory":
        """As they were remembered; there is at least one."""
        (_, first), *later = entries
        history = cls(first)
        history._entries += later
        return history

    def before(self, offset: int) -> VoterSet:
        """The set that holds when everything before ``offset`` is applied."""
        return next(voters for at, voters in reversed(self._entries) if at < offset)

    def appended(self, offset: int, voters: VoterSet) -> None:
        invariant(offset > self.latest_offset, "sets of voters come in order", offset, self.latest_offset)
        self._entries.append((offset, voters))

    def cut(self, end_offset: int) -> bool:
        """The log ends at ``end_offset`` now; whether another set is in force."""
        before = len(self._entries)
        while self._entries[-1][0] >= end_offset:
            self._entries.pop()
        return len(self._entries) != before

    def restart(self, voters: VoterSet) -> None:
        """A snapshot has taken the log's place."""
        self._entries = [(NO_OFFSET, voters)]

    def forget_before(self, offset: int) -> None:
        """The log begins at ``offset`` now."""
        first = self.before(offset)
        self._entries = [(NO_OFFSET, first), *(entry for entry in self._entries if entry[0] >= offset)]
