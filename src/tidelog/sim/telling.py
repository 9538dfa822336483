"""Tells what happens in a simulation: lines with their time, steps, and faults by name."""

from collections.abc import Callable, Mapping

from tidelog.sim.disk import nothing
from tidelog.sim.machine import Machine
from tidelog.sim.network import Network
from tidelog.sim.world import World

STEP_MS = 10.0


class StoryFailed(AssertionError):
    """Something did not happen that the story needs."""


class Telling:
    """The subject of a story: machines have letters, and every step is told with its result."""

    def __init__(self, world: World, network: Network, machines: Mapping[int, Machine]) -> None:
        self.world = world
        self.network = network
        self._machines = machines
        self._names: dict[int, str] = {}  # node → letter
        self._began_ms = 0.0
        self._told = ""
        self.lines: list[str] = []

    def state(self) -> str:
        """The state, in one line; told whenever it has changed."""
        raise NotImplementedError

    def begin(self, names: dict[int, str]) -> None:
        self._names = names
        self._began_ms = self.world.now_ms
        self.tell_state()

    # --- telling --------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        seconds = (self.world.now_ms - self._began_ms) / 1000
        self.lines.append(f"{seconds:7.2f} s  {text}")

    def tell_state(self) -> None:
        state = self.state()
        if state != self._told:
            self._told = state
            self.tell(f"  {state}")

    def machine_of(self, letter: str) -> Machine:
        return next(self._machines[node] for node, name in self._names.items() if name == letter)

    def nodes(self, letters: str) -> list[int]:
        return [self.machine_of(letter).node_id for letter in letters]

    # --- time -----------------------------------------------------------------------------------------------

    def run(self, milliseconds: float) -> None:
        """Let time pass, and tell every change."""
        end = self.world.now_ms + milliseconds
        while self.world.now_ms < end:
            self.world.run_until(min(end, self.world.now_ms + STEP_MS))
            self.tell_state()

    def until(self, condition: Callable[[], bool], what: str, patience_ms: float = 30_000) -> None:
        end = self.world.now_ms + patience_ms
        while not condition():
            if self.world.now_ms >= end:
                raise StoryFailed(f"{what} did not happen:\n" + "\n".join(self.lines))
            self.run(STEP_MS)

    # --- faults ---------------------------------------------------------------------------------------------

    def kill(self, letters: str) -> None:
        self._do("kill", letters, Machine.kill)

    def start(self, letters: str) -> None:
        self._do("start", letters, Machine.start)

    def freeze(self, letter: str) -> None:
        self._do("freeze", letter, Machine.pause)

    def thaw(self, letter: str) -> None:
        self.tell(f"{letter} goes on")
        self.machine_of(letter).resume()

    def _do(self, verb: str, letters: str, action: Callable[[Machine], None]) -> None:
        self.tell(f"{verb} {spoken(letters)}")
        for letter in letters:
            action(self.machine_of(letter))

    def power_off(self, letters: str) -> None:
        """The worst case: only synced data survives."""
        verb = "lose" if len(letters) > 1 else "loses"
        self.tell(f"{spoken(letters)} {verb} power, what was not synced is gone")
        for letter in letters:
            self.machine_of(letter).lose_power(nothing)

    def lose_disk(self, letter: str) -> None:
        self.tell(f"{letter} loses its disk, and will come back with an empty one")
        self.machine_of(letter).lose_disk()

    def cut(self, ones: str, others: str) -> None:
        self.tell(f"cut {spoken(ones)} off from {spoken(others)}")
        self.network.part(self.nodes(ones), self.nodes(others))

    def cut_noticed(self, ones: str, others: str) -> None:
        """The same, and connections close: both ends notice."""
        self.tell(f"cut {spoken(ones)} off from {spoken(others)}, and close their connections")
        self.network.part(self.nodes(ones), self.nodes(others))
        for one in self.nodes(ones):
            for other in self.nodes(others):
                self.network.close(one, other, (one, other))

    def heal(self) -> None:
        self.tell("heal the network")
        self.network.heal()

    def slow_down(self, one: str, other: str, extra_ms: float) -> None:
        self.tell(f"the way between {one} and {other} becomes slow: {extra_ms:.0f} ms more for each message")
        nodes = self.nodes(one + other)
        self.network.slow_links[nodes[0], nodes[1]] = self.network.slow_links[nodes[1], nodes[0]] = extra_ms

    def fill_disk(self, letter: str) -> None:
        self.tell(f"the disk of {letter} is full")
        disk = self.machine_of(letter).disk
        disk.capacity_bytes = disk.used_bytes()

    def repair_disk(self, letter: str) -> None:
        self.tell(f"the disk of {letter} is repaired")
        self.machine_of(letter).repair()


def spoken(letters: str) -> str:
    return " and ".join(letters)


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise StoryFailed(f"{found} and not {wanted}")
