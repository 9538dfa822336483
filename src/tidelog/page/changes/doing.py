"""Previews and changes for a browser, with the page's own view of the cluster."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from tidelog.page.asking.link import Address, Link
from tidelog.page.changes import offsets, producing, requests
from tidelog.page.changes.preview import preview
from tidelog.page.changes.requests import ChangeRefused
from tidelog.page.changes.wishes import Change, Produce, Promote, ResetOffsets, Unclear, change_of
from tidelog.page.promises import places_of
from tidelog.page.watcher import Watcher
from tidelog.planner.promises import by_hand

logger = logging.getLogger(__name__)

TIMEOUT_S = 15.0

T = TypeVar("T")


class Changes:
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def preview(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """What would happen. The cluster is asked whether it would take the change, where it can be asked."""
        change = change_of(said)
        facts = self._watcher.facts
        if isinstance(change, ResetOffsets):
            _, group = await self._watcher.for_view(offsets.find, facts, change.group)
            planned = await self._watcher.for_view(offsets.plan, facts, change, group)
            return offsets.preview(group, planned).row()
        found = preview(facts, change)
        await self._ask(partial(requests.send, change=change, is_check=True))
        return found.row()

    async def apply(self, said: Mapping[str, Any]) -> str:
        """What was done, in a sentence."""
        change = change_of(said)
        facts = self._watcher.facts
        logger.warning("asked for on the page: %s", _without_payload(change))
        if isinstance(change, ResetOffsets):
            address, group = await self._watcher.for_view(offsets.find, facts, change.group)
            planned = await self._watcher.for_view(offsets.plan, facts, change, group)
            await self._watcher.for_view(offsets.commit, address, change.group, planned)
            return f"The offsets of {len(planned)} partitions were reset."
        preview(facts, change)  # What makes no sense is not sent.
        if isinstance(change, Produce):
            return await self._watcher.for_view(producing.produce, self._addresses(), change)
        if isinstance(change, Promote):
            await self._ask(self._promotion(change))
            return f"Broker {change.to} takes over {change.name}-{change.partition}."
        await self._ask(partial(requests.send, change=change, is_check=False))
        return "Done."

    def _promotion(self, change: Promote) -> Callable[[Link], None]:
        facts = self._watcher.facts
        assert facts.cluster is not None
        place = places_of(facts, change.name)[change.partition]
        replicas = tuple(facts.cluster.topics[change.name].partitions[change.partition].replicas)
        is_elected = by_hand(place.terms.mode) != "promote"
        return partial(requests.promote, change=change, replicas=replicas, is_elected=is_elected)

    async def _ask(self, question: Callable[[Link], T]) -> T:
        """One broker that is there, once: whether a change was made is not known if the answer is lost."""
        for address in self._addresses():
            link = Link(address, TIMEOUT_S)
            try:
                await self._watcher.for_view(link.serves, 0, 0)
            except OSError:
                link.close()
                continue
            try:
                return await self._watcher.for_view(question, link)
            except OSError as error:
                raise ChangeRefused(
                    f"There was no answer ({str(error).rstrip('.')}): the change may have been made all the "
                    "same."
                ) from None
            finally:
                link.close()
        raise ChangeRefused("No broker answers.")

    def _addresses(self) -> list[Address]:
        facts = self._watcher.facts
        away = facts.away()
        known = facts.cluster.brokers.values() if facts.cluster is not None else ()
        return [each.address for each in known if each.broker not in away] or [*self._watcher.bootstrap]


def _without_payload(change: Change) -> Change:
    """For the log."""
    return change._replace(key=None, value=None, headers=()) if isinstance(change, Produce) else change


__all__ = ["ChangeRefused", "Changes", "Unclear"]
