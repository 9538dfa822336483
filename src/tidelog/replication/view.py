"""What a policy may look at: the state of one partition as its leader sees it."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import ErrorCode


class View(NamedTuple):
    local_id: int
    in_sync: tuple[int, ...]  # the maximal in-sync set: members and pending joins
    end_offsets: Mapping[
        int, int
    ]  # of each known replica: how far it holds the log as durably as the topic asks
    high_watermark: int
    min_in_sync: int


class Yes:
    """The produce is done."""


class Wait:
    """More copies must arrive first."""


class Refuse(NamedTuple):
    code: ErrorCode


YES = Yes()
WAIT = Wait()
Verdict = Yes | Wait | Refuse
