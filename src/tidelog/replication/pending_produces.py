"""Produces that wait until they are acknowledged or refused. Only keeps and orders them: the policy says when
one is done.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from tidelog.errors import ErrorCode
from tidelog.replication.effects import CompleteProduce, Effects, new_complete_produce
from tidelog.replication.policies.policy import Policy
from tidelog.replication.view import WAIT, YES, Refuse, View


class PendingProduce(NamedTuple):
    end_offset: int
    acks: int
    deadline_ms: int
    token: int


# The same as calling the class, but one call less: see effects.
new_pending: Callable[[tuple[int, int, int, int]], PendingProduce] = partial(tuple.__new__, PendingProduce)


class PendingProduces:
    __slots__ = ("queues",)

    def __init__(self) -> None:
        # One queue per acks value: each is completed in order, and a produce with acks=1 does not wait behind
        # one with acks=all.
        self.queues: dict[int, deque[PendingProduce]] = {}

    @property
    def is_empty(self) -> bool:
        return not any(self.queues.values())

    def add(self, end_offset: int, acks: int, deadline_ms: int, token: int) -> None:
        queue = self.queues.get(acks)
        if queue is None:
            queue = self.queues[acks] = deque()
        queue.append(new_pending((end_offset, acks, deadline_ms, token)))

    def complete(self, policy: Policy, view: View, committed: int, effects: Effects) -> None:
        """Complete the produces below the high watermark."""
        for acks, queue in self.queues.items():
            while queue and queue[0].end_offset <= committed:
                _complete_first(acks, queue, policy, view, effects)

    def recheck(self, policy: Policy, view: View, effects: Effects) -> None:
        """More has changed than what followers hold: any produce may be refused now, or need fewer copies
        than before.
        """
        for acks, queue in self.queues.items():
            while queue and _complete_first(acks, queue, policy, view, effects):
                pass

    def expire(self, now_ms: int, error: ErrorCode) -> Effects:
        """Complete the produces whose deadline has passed with ``error``."""
        effects: Effects = []
        for queue in self.queues.values():
            if not queue:
                continue
            expired = [pending for pending in queue if pending.deadline_ms <= now_ms]
            if not expired:
                continue
            # Not one after another: producers choose their timeouts, so they may be anywhere in a long queue.
            left = [pending for pending in queue if pending.deadline_ms > now_ms]
            queue.clear()
            queue.extend(left)
            effects += [CompleteProduce(pending.token, error) for pending in expired]
        return effects

    def refuse_all(self, error: ErrorCode) -> Effects:
        effects: Effects = [
            CompleteProduce(each.token, error) for queue in self.queues.values() for each in queue
        ]
        self.queues.clear()
        return effects


def _complete_first(
    acks: int, queue: deque[PendingProduce], policy: Policy, view: View, effects: Effects
) -> bool:
    """Complete the first produce of a queue if the policy says so; returns whether it did."""
    verdict = policy.acknowledged(view, queue[0].end_offset, acks)
    if verdict is WAIT:
        return False
    code = ErrorCode.NONE if verdict is YES else cast(Refuse, verdict).code
    effects.append(new_complete_produce((queue.popleft().token, code)))
    return True
