"""One state machine and the least that it needs around it: a log that is a few numbers, a clock that stands
still. Every event is also handed to a copy of the machine, which must do the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from datadriven import call, told

from tidelog.errors import ErrorCode
from tidelog.log.epochs import EpochCache
from tidelog.machine import Machine
from tidelog.replication.effects import BeginEpoch, CompleteProduce, Truncate
from tidelog.replication.election import Election
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import NO_LIMIT, FetchResult, Replica
from tidelog.replication.voters import VoterSet
from tidelog.replication.votes import Ballot, Tail, Timing, VoteRequest, VoteResponse

ACKS = {"all": -1, "leader": 1}


class Driver:
    """Commands that are no events of the machine are methods of the driver."""

    shown: tuple[str, ...] = ()  # Fields of the machine or of its parts that are told when they change.

    def __init__(self) -> None:
        self.now_ms = 0

    @property
    def machine(self) -> Machine:
        raise NotImplementedError

    @property
    def given(self) -> Mapping[str, Any]:
        return {"now_ms": self.now_ms}

    def execute(self, name: str, words: Mapping[str, str]) -> Iterator[str]:
        own = getattr(self, f"do_{name}", None)
        before = self.machine.copied()
        yield from call(own, words, {}) if own is not None else self.event(name, words)
        for field in self.shown:
            old, new = attrgetter(field)(before), attrgetter(field)(self.machine)
            if old != new:
                yield f"  {field.rpartition('.')[2].lstrip('_')}: {told(old)} -> {told(new)}"

    def event(self, name: str, words: Mapping[str, str]) -> Iterator[str]:
        return self.outcome(lambda machine: call(getattr(machine, name), words, self.given))

    def outcome(self, event: Any) -> Iterator[str]:
        copy = self.machine.copied()
        result = event(self.machine)
        assert event(copy) == result
        assert copy.as_data() == self.machine.as_data()
        yield from self.tell(result)

    def tell(self, result: Any) -> Iterable[str]:
        return [told(each) for each in result or ()]

    def do_time(self, now_ms: int) -> Iterable[str]:
        self.now_ms = now_ms
        return ()

    def do_show(self, field: str) -> Iterable[str]:
        yield told(attrgetter(field)(self.machine))


# --- replicas -----------------------------------------------------------------------------------------------


class SmallLog:
    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.synced_end_offset = 0
        self.epochs = EpochCache()

    def write(self, epoch: int, count: int) -> None:
        self.epochs.assign(epoch, self.end_offset)
        self.end_offset += count

    def cut(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.synced_end_offset = min(self.synced_end_offset, end_offset)
        self.epochs.truncate_from(end_offset)


class ReplicaDriver(Driver):
    shown = (
        "role", "epoch", "leader", "high_watermark", "in_sync", "maximal_in_sync", "sealed_end_offset",
        "handing_over", "watermark.log_confirmed", "watermark.agreed", "watermark.committed_seen",
    )  # fmt: skip

    def __init__(self, mode: str, limits: Limits, me: int = 1) -> None:
        super().__init__()
        self.log = SmallLog()
        self.replica = Replica(me, self.log, MODES[mode].policy, limits)
        self.safe_end_offset = NO_LIMIT
        self.replica.ask_before_commit(lambda: self.safe_end_offset)

    @property
    def machine(self) -> Replica:
        return self.replica

    def tell(self, result: Any) -> Iterator[str]:
        """Effects are carried out when all of them are known."""
        if isinstance(result, FetchResult):
            yield told(result._replace(effects=[]))
            result = result.effects
        elif isinstance(result, bool | ErrorCode | int):
            yield told(result)
            return
        elif result is not None and not isinstance(result, list):
            result = [result]
        for effect in result or ():
            yield told(effect)
            match effect:
                case BeginEpoch(epoch, start_offset):
                    self.log.epochs.assign(epoch, start_offset)
                case Truncate(end_offset):
                    self.log.cut(end_offset)

    def do_show(self, field: str) -> Iterable[str]:
        return super().do_show("proposals.pending" if field == "proposed" else field)

    def do_produce(self, acks: str = "all", count: int = 1, timeout_ms: int = 1000) -> Iterator[str]:
        """Waits under the offset at which it ends."""
        refusal = self.replica.before_append(ACKS[acks])
        if refusal is not ErrorCode.NONE:
            yield f"refused {refusal.name}"
            return
        self.log.write(self.replica.epoch, count)
        end_offset, deadline_ms = self.log.end_offset, self.now_ms + timeout_ms
        yield from self.outcome(lambda replica: replica.appended())
        error = self.replica.verdict(end_offset, ACKS[acks])
        if error is None:
            wait = (end_offset, ACKS[acks], deadline_ms, end_offset)
            yield from self.outcome(lambda replica: replica.wait(*wait))
        else:
            yield from self.outcome(lambda _: CompleteProduce(end_offset, error))

    def do_records(self, epoch: int, count: int = 1) -> Iterable[str]:
        """Of a leader, or of an earlier life."""
        self.log.write(epoch, count)
        return ()

    def do_sync(self) -> Iterator[str]:
        self.log.synced_end_offset = self.log.end_offset
        return self.outcome(lambda replica: replica.synced())

    def do_mode(self, mode: str) -> Iterator[str]:
        return self.outcome(lambda replica: replica.set_policy(MODES[mode].policy))

    def do_limits(self, min_in_sync: int, durable: bool = False) -> Iterator[str]:
        limits = self.replica.limits._replace(min_in_sync=min_in_sync, durable=durable)
        return self.outcome(lambda replica: replica.set_limits(limits))

    def do_doubt(self, doubted: bool, held: int = 0) -> Iterable[str]:
        """Whether another one may lead by now, and what all of those that may hold."""
        self.safe_end_offset = held if doubted else NO_LIMIT
        return ()

    def do_fetched(
        self, replica: int, offset: int, last_epoch: int = -1, epoch: int | None = None
    ) -> Iterator[str]:
        ask = self.replica.epoch if epoch is None else epoch
        known = self.log.epochs.epoch_at(offset - 1) if last_epoch < 0 < offset else last_epoch
        return self.outcome(lambda each: each.fetched(replica, ask, offset, known, 0, self.now_ms))

    def do_diverged(self, epoch: int, end: str, unclean: bool = False) -> Iterator[str]:
        asked, end_offset = map(int, end.split("@"))
        return self.outcome(lambda each: each.diverged(epoch, (asked, end_offset), unclean=unclean))


# --- elections ----------------------------------------------------------------------------------------------


def tail_of(word: str) -> Tail:
    epoch, end_offset = word.split("@")
    return Tail(int(epoch), int(end_offset))


class ElectionDriver(Driver):
    """Chance is always none: "plus chance" is as short as it can be."""

    shown = ("state", "epoch", "voted_for", "leader", "voters", "deadline_ms", "forgot", "needed", "retired")

    def __init__(self, me: int, voters: tuple[int, ...], epoch: int = 0) -> None:
        super().__init__()
        self.tail = Tail(-1, 0)
        self.election = Election(me, VoterSet.of(voters), Ballot(epoch), Timing(), 0, 0.0)

    @property
    def machine(self) -> Election:
        return self.election

    @property
    def given(self) -> Mapping[str, Any]:
        return {"now_ms": self.now_ms, "chance": 0.0, "tail": self.tail}

    def do_log(self, tail: str) -> Iterable[str]:
        """How far this voter's log goes: the epoch of its newest record, and its end."""
        self.tail = tail_of(tail)
        return ()

    def do_vote_requested(self, candidate: int, epoch: int, tail: str, pre: bool = False) -> Iterator[str]:
        request = VoteRequest(epoch, candidate, tail_of(tail), pre)
        return self.outcome(lambda each: each.vote_requested(request, self.now_ms, 0.0, self.tail))

    def do_vote_responded(
        self, voter: int, epoch: int, granted: bool, leader: int = -1, pre: bool = False
    ) -> Iterator[str]:
        response = VoteResponse(voter, epoch, granted, leader, pre)
        return self.outcome(lambda each: each.vote_responded(response, self.now_ms, 0.0, self.tail))

    def do_change_voters(self, voters: tuple[int, ...], needed: bool = False) -> Iterator[str]:
        wanted = VoterSet.of(voters)
        return self.outcome(lambda each: each.change_voters(wanted, self.now_ms, needed=needed))
