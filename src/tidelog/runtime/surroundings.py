"""The disk and the services of a broker process: the real ones, or the lab's, if it asks for them."""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

from tidelog.runtime.disk import Disk
from tidelog.runtime.hooks import VARIABLE
from tidelog.runtime.services import LoopServices


class BrokerSurroundings(NamedTuple):
    disk: Disk
    services: LoopServices


def surroundings(loop: asyncio.AbstractEventLoop, data: Path) -> BrokerSurroundings:
    directory = os.environ.get(VARIABLE)
    if directory is None:
        return BrokerSurroundings(Disk(), LoopServices(loop))
    from tidelog.runtime.hooks.control import Control
    from tidelog.runtime.hooks.disk import hooked_disk
    from tidelog.runtime.hooks.services import HookedServices

    control = Control(Path(directory))
    return BrokerSurroundings(hooked_disk(Path(directory), control, str(data)), HookedServices(loop, control))
