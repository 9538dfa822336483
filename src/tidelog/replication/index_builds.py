"""Rebuilds the indexes of a log in a thread, while everything else continues.

Keeps track of the segments that are being indexed and of the callers that wait for them. A truncation makes a
running build void: callers that still need the indexes request them again.
"""

import logging
from collections.abc import Callable

from tidelog.errors import StorageError
from tidelog.log.index_build import IndexBuild, Unindexed
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.services import Services

logger = logging.getLogger(__name__)

Then = Callable[[BaseException | None], None]
"""Receives the error; None: done or void, try the read again."""


class IndexBuilds:
    __slots__ = ("_log", "_services", "_under_way")

    def __init__(self, log: Log, services: Services) -> None:
        self._log = log
        self._services = services
        self._under_way: dict[Segment, list[Then]] = {}

    def begin(self, unindexed: Unindexed, then: Then) -> None:
        """Each slice is a work item of its own, so that other work gets its turn in the threads."""
        segment = unindexed.segment
        if segment in self._under_way:
            self._under_way[segment].append(then)
            return
        logger.warning("rebuilding the indexes of %s: %s", segment.path, unindexed.reason)
        self._under_way[segment] = [then]
        try:
            build = IndexBuild(segment)
        except OSError as error:
            self._finish(segment, error)
            return
        self._next(segment, build, self._log.cuts)

    def _next(self, segment: Segment, build: IndexBuild, cuts: int) -> None:
        def stepped(found: bool | BaseException) -> None:
            if isinstance(found, BaseException):
                self._finish(segment, found)
            elif self._log.closed or self._log.cuts != cuts:
                self._finish(segment, None)
            elif not found:
                self._next(segment, build, cuts)
            else:
                self._take(segment, build)

        self._services.offload(build.step, stepped)

    def _take(self, segment: Segment, build: IndexBuild) -> None:
        try:
            self._log.take_indexes(segment, build)
        except StorageError as error:
            self._finish(segment, error)
        else:
            self._finish(segment, None)

    def _finish(self, segment: Segment, error: BaseException | None) -> None:
        if error is not None:
            logger.error("cannot build the indexes of %s: %s", segment.path, error)
        for then in self._under_way.pop(segment):
            then(error)
