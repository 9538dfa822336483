"""Voter sets, which are stored in the log itself.

A voter is an id *and* a disk: ``directory`` is the id of the data directory with which it voted and
acknowledged. A voter that comes back with another disk has lost its votes and its records, so it is not
counted until the others have readmitted it. A voter whose directory is not known yet (the settings name only
ids and addresses) counts with any directory.

Sets are control records of the log that they govern. A set is in force as soon as it is written, not when it
is committed. If its record is truncated, the previous set is in force again. Only one voter at a time is
added or removed, so every majority of a set shares a member with every majority of the previous set.
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
    directory: UUID | None = None  # None: not known yet, any counts
    host: str = ""
    port: int = 0
    # For a replica that lost data and was readmitted: the number of the loss for which it was readmitted. -1:
    # it has been a voter from the beginning.
    heals: int = -1


class _Record(msgspec.Struct, omit_defaults=True):
    """A voter set in the log."""

    voters: list[Voter]
    returning: list[Voter] = []
    version: int = 0


class VoterSet:
    """Immutable. ``returning``: former voters that came back with another disk. They do not vote now, and
    become voters again as soon as the set without them is committed.
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
        """Whether this node counts as a voter with this disk."""
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
        """Whether every majority of this set shares a voter with every majority of the set before."""
        return len(self) > 0 and len(self.ids ^ before.ids) <= 1


def encode_set(voters: VoterSet) -> bytes:
    return msgspec.json.encode(_Record(list(voters), list(voters.returning)))


def decode_set(data: bytes) -> VoterSet:
    try:
        record = msgspec.json.decode(data, type=_Record)
        return VoterSet(record.voters, record.returning)
    except msgspec.DecodeError as error:
        raise StorageError(f"cannot read a voter set: {error}; is it from a newer version?") from None


def encode_batch_of(voters: VoterSet, offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The set as one control batch, ready to be appended."""
    record = Record(offset, now_ms, _KEY, encode_set(voters), ())
    return encode_batch([record], leader_epoch=leader_epoch, control=True)


def sets_in(batches: memoryview) -> Iterator[tuple[int, VoterSet]]:
    """(offset, set) of every voter set in these batches. For ordinary batches only the header is read."""
    for position, header in iterate(batches):
        if header.is_control:
            for record in decode_batch(batches[position : position + header.size]):
                if record.key == _KEY:
                    yield record.offset, decode_set(record.value or b"")


class VoterHistory:
    """All voter sets in one log, oldest first; the last one is in force."""

    def __init__(self, first: VoterSet) -> None:
        # (offset of its record, set). The first one comes from the settings, or from a snapshot.
        self._entries: list[tuple[int, VoterSet]] = [(NO_OFFSET, first)]

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> int:
        """Offset of the latest set's record; -1 if the set is not from a record in the log."""
        return self._entries[-1][0]

    @property
    def entries(self) -> tuple[tuple[int, VoterSet], ...]:
        return tuple(self._entries)

    @classmethod
    def of(cls, entries: Iterable[tuple[int, VoterSet]]) -> "VoterHistory":
        """From stored entries, of which there is at least one."""
        (_, first), *later = entries
        history = cls(first)
        history._entries += later
        return history

    def before(self, offset: int) -> VoterSet:
        """The set in force when everything before ``offset`` is applied."""
        return next(voters for at, voters in reversed(self._entries) if at < offset)

    def appended(self, offset: int, voters: VoterSet) -> None:
        invariant(offset > self.latest_offset, "voter sets come in order", offset, self.latest_offset)
        self._entries.append((offset, voters))

    def cut(self, end_offset: int) -> bool:
        """The log was truncated to ``end_offset``; returns whether another set is in force."""
        before = len(self._entries)
        while self._entries[-1][0] >= end_offset:
            self._entries.pop()
        return len(self._entries) != before

    def restart(self, voters: VoterSet) -> None:
        """A snapshot has replaced the log."""
        self._entries = [(NO_OFFSET, voters)]

    def forget_before(self, offset: int) -> None:
        """The log begins at ``offset`` now."""
        first = self.before(offset)
        self._entries = [(NO_OFFSET, first), *(entry for entry in self._entries if entry[0] >= offset)]
