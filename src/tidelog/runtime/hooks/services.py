"""The services of a broker whose wall clock the lab sets."""

import asyncio

from tidelog.runtime.hooks.control import Control
from tidelog.runtime.services import LoopServices


class HookedServices(LoopServices):
    def __init__(self, loop: asyncio.AbstractEventLoop, control: Control) -> None:
        super().__init__(loop)
        self._control = control

    def now_ms(self) -> int:
        return super().now_ms() + self._control.trouble.clock_ms
