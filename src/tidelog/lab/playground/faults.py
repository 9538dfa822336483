"""What is broken now, and what was broken before: the bands of a plot.

Owns the states of the brokers as the playground made them. A broker that is started again, or ended, from
outside is seen by its process.
"""

import threading
import time
from collections import deque
from typing import NamedTuple

from tidelog.lab.faults.inject import FaultError, Injected, Parties, inject
from tidelog.lab.playground.brokers import LocalBrokers

UP, KILLED, FROZEN, RESTARTING, DOWN = "up", "killed", "frozen", "restarting", "down"
CUT = "cut off"
BANDS_MAX = 50
START_S = 30.0
WORDS = {
    KILLED: "was killed with kill -9",
    FROZEN: "was frozen with SIGSTOP",
    CUT: "was cut off from the other brokers; clients still reach it",
}


class Band(NamedTuple):
    broker: int
    what: str
    begin_ms: int
    end_ms: int = -1  # -1: it is still there


class Broken(NamedTuple):
    state: str
    injected: Injected
    pid: int


class Faults:
    """One at a time. Any thread may ask."""

    def __init__(self, cluster: LocalBrokers) -> None:
        self._cluster = cluster
        self._broken: dict[int, Broken] = {}
        self._acting = threading.Lock()  # one command after the other
        self._lock = threading.Lock()  # of what is kept here
        self._bands: deque[Band] = deque(maxlen=BANDS_MAX)

    def kill(self, broker: int) -> str:
        """kill -9, also of one that is frozen or cut off."""
        with self._acting:
            pid = self._pid(broker)
            self._heal(broker, CUT)
            self._begin(broker, KILLED)
            try:
                injected = inject(self._cluster, "kill", Parties((broker,)))
            except FaultError:
                self._end(broker)
                raise
            self._put(broker, Broken(KILLED, injected, pid))
            return f"Broker {broker} {WORDS[KILLED]}."

    def freeze(self, broker: int) -> str:
        with self._acting:
            if self.states().get(broker) == FROZEN:
                raise FaultError(f"Broker {broker} is frozen already.")
            pid = self._pid(broker)
            self._check_reached(broker)
            self._begin(broker, FROZEN)
            try:
                injected = inject(self._cluster, "freeze", Parties((broker,)))
            except FaultError:
                self._end(broker)
                raise
            self._put(broker, Broken(FROZEN, injected, pid))
            return f"Broker {broker} {WORDS[FROZEN]}."

    def thaw(self, broker: int) -> str:
        with self._acting:
            if not self._heal(broker, FROZEN):
                raise FaultError(f"Broker {broker} is not frozen.")
            return f"Broker {broker} runs on."

    def cut(self, broker: int) -> str:
        """From all other brokers, in both directions. Nothing is between brokers and clients."""
        with self._acting:
            pid = self._pid(broker)
            self._check_reached(broker)
            if self.states().get(broker) == FROZEN:
                raise FaultError(f"Broker {broker} is frozen: thaw it first.")
            others = tuple(other for other in self._cluster.brokers if other != broker)
            if not others:
                raise FaultError("There is no other broker to be cut off from.")
            if reason := self._cluster.why_no_cut():
                raise FaultError(reason)
            self._begin(broker, CUT)
            try:
                injected = inject(self._cluster, "cut", Parties((broker,), others))
            except FaultError:
                self._end(broker)
                raise
            self._put(broker, Broken(CUT, injected, pid))
            return f"Broker {broker} {WORDS[CUT]}."

    def heal(self, broker: int) -> str:
        with self._acting:
            if not self._heal(broker, CUT):
                raise FaultError(f"Broker {broker} is not cut off.")
            return f"Broker {broker} reaches the other brokers again."

    def restart(self, broker: int) -> str:
        """A clean stop and a start. One that is down is only started; a freeze or a cut is healed first."""
        with self._acting:
            self._check(broker)
            self._heal(broker, FROZEN, CUT)
            was_up = self._cluster.runs(broker)
            self._drop(broker)
            if not was_up:
                self._start(broker)
                return f"Broker {broker} was started."
            self._begin(broker, RESTARTING)
            self._put(broker, Broken(RESTARTING, Injected("restart"), -1))
            try:
                inject(self._cluster, "stop", Parties((broker,)))
                self._start(broker)
            finally:
                self._drop(broker)
            return f"Broker {broker} was stopped cleanly and started again."

    def heal_all(self) -> None:
        """Nothing else would: a frozen process would stay so when the playground ends."""
        with self._acting:
            for broker in list(self._broken):
                self._heal(broker, FROZEN, CUT)

    def states(self) -> dict[int, str]:
        """Of all brokers. What was healed from outside is not broken any more."""
        states = {}
        for broker in self._cluster.brokers:
            found = self._broken.get(broker)
            try:
                pid = self._cluster.pid(broker)
            except RuntimeError:
                pid = -1
            is_lost = found is not None and found.state == CUT and not self._cluster.wiring.is_whole()
            if found is not None and (is_lost or _is_over(found, pid)):
                self._heal(broker, CUT)  # Its next process would be cut off, too.
                self._drop(broker)
                found = None
            states[broker] = found.state if found is not None else UP if pid >= 0 else DOWN
        return states

    def shown(self) -> list[Band]:
        with self._lock:
            return list(self._bands)

    def _start(self, broker: int) -> None:
        self._cluster.launch(broker)
        deadline = time.monotonic() + START_S
        while not self._cluster.runs(broker):
            if time.monotonic() > deadline:
                raise FaultError(f"Broker {broker} did not start within {START_S:.0f} s; see its broker.log.")
            time.sleep(0.02)

    def _heal(self, broker: int, *states: str) -> bool:
        """Whether it had one of these faults."""
        found = self._broken.get(broker)
        if found is None or found.state not in states:
            return False
        try:
            found.injected.heal()
        finally:
            self._drop(broker)
        return True

    def _check_reached(self, broker: int) -> None:
        if self.states().get(broker) == CUT:
            raise FaultError(f"Broker {broker} is cut off: heal it first.")

    def _pid(self, broker: int) -> int:
        self._check(broker)
        try:
            return self._cluster.pid(broker)
        except RuntimeError:
            raise FaultError(f"Broker {broker} does not run.") from None

    def _check(self, broker: int) -> None:
        known = self._cluster.brokers
        if broker not in known:
            raise FaultError(f"There is no broker {broker}; there are {', '.join(map(str, known))}.")

    def _begin(self, broker: int, what: str) -> None:
        self._end(broker)
        with self._lock:
            self._bands.append(Band(broker, what, now_ms()))

    def _end(self, broker: int) -> None:
        with self._lock:
            for place, band in enumerate(self._bands):
                if band.broker == broker and band.end_ms < 0:
                    self._bands[place] = band._replace(end_ms=now_ms())

    def _put(self, broker: int, found: Broken) -> None:
        self._broken[broker] = found

    def _drop(self, broker: int) -> None:
        self._broken.pop(broker, None)
        self._end(broker)


def _is_over(found: Broken, pid: int) -> bool:
    """Whether another process is this broker now, or the frozen or cut one has ended. ``pid`` -1: none."""
    is_other = pid not in (-1, found.pid)
    return found.state != RESTARTING and (is_other or (found.state in (FROZEN, CUT) and pid < 0))


def now_ms() -> int:
    return int(time.time() * 1000)
