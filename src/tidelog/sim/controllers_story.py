"""Scripted faults on the controllers alone, line by line: three voters A, B and C that replicate one log by
vote. It is the metadata log here; every log of mode ``quorum`` follows the same rules.

A is the leader when the story begins. Decisions are called d1, d2, …
"""

from collections.abc import Sequence
from typing import cast

from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerConfigChanged
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import iterate
from tidelog.sim.controllers import DIRECTORY, VALUES, ControllerMachine, ControllersCluster
from tidelog.sim.telling import STEP_MS, StoryFailed, Telling

VOTERS = "ABCDE"


class Decision:
    """A request, and its response."""

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.where = where
        self.outcome: ErrorCode | None = None


class ControllersStory(Telling):
    def __init__(self, size: int = 3, seed: int = 1) -> None:
        self.cluster = ControllersCluster(seed, size)
        super().__init__(self.cluster.world, self.cluster.network, self.cluster.machines)
        self._decisions = 0
        self.cluster.start()
        if not self.world.run_while(lambda: not self.cluster.is_whole(), 20_000):
            raise StoryFailed("the controllers do not begin")
        [leader] = self.cluster.leaders()
        others = [node for node in self.cluster.machines if node != leader]
        self.begin(dict(zip([leader, *others], VOTERS, strict=False)))

    # --- looking --------------------------------------------------------------------------------------------

    def machine(self, letter: str) -> ControllerMachine:
        return cast(ControllerMachine, self.machine_of(letter))

    def quorum(self, letter: str) -> MetadataQuorum:
        quorum = self.machine(letter).quorum
        if quorum is None:
            raise StoryFailed(f"{letter} does not run")
        return quorum

    def decider(self) -> str:
        """The controller that can decide: it leads, and knows everything decided before. "" if
        there is none.
        """
        return "".join(self._names[node] for node, quorum in self._running() if quorum.active)

    def state(self) -> str:
        leading = [
            f"{self._names[node]} leads epoch {quorum.election.epoch}"
            for node, quorum in self._running()
            if node in self.cluster.leaders()
        ]
        return ", ".join(leading) or "nobody leads"

    def _running(self) -> list[tuple[int, MetadataQuorum]]:
        return [
            (node, machine.quorum)
            for node, machine in self.cluster.machines.items()
            if machine.quorum is not None and machine.services is not None and not machine.services.paused
        ]

    def known(self, letter: str) -> list[str]:
        """The decisions that a voter considers committed."""
        return list(self.quorum(letter).image.broker_configs.get(VALUES, {}))

    def tell_known(self) -> None:
        parts = [
            f"{letter} {' '.join(self.known(letter)) or 'nothing'}"
            for letter in sorted(self._names[node] for node, _ in self._running())
        ]
        self.tell("  known  " + "   ".join(parts))

    # --- doing ----------------------------------------------------------------------------------------------

    def stand(self, letters: str) -> None:
        """Voters become candidates without a pre-vote."""
        self.tell(f"{' and '.join(letters)} stand for election at the same time")
        for letter in letters:
            self.machine(letter).stand()

    def flip_bit(self, letter: str) -> None:
        """In the newest batch of its log, while the process is dead."""
        disk = self.machine(letter).disk
        path, content = max(
            (path, data) for path, data in disk.contents(DIRECTORY).items() if path.endswith(".log")
        )
        position, header = list(iterate(content))[-1]
        self.tell(f"a bit flips on the disk of {letter}, in the newest batch")
        disk.flip(path, position + header.size - 1, 0)

    def decide(self, at: str | None = None, patience_ms: float = 4000) -> ErrorCode | None:
        return self.await_answer(self.ask(at), patience_ms)

    def ask(self, at: str | None = None) -> Decision:
        """A decision that is not waited for; not told yet."""
        self._decisions += 1
        decision = Decision(f"d{self._decisions}", at or self.decider() or "nobody")

        def decide(image: ClusterImage) -> Sequence[BrokerConfigChanged]:
            return [BrokerConfigChanged(VALUES, {decision.name: ""})]

        def done(error: TidelogError | None) -> None:
            decision.outcome = ErrorCode.NONE if error is None else error.code

        if decision.where != "nobody":
            machine, quorum = self.machine(decision.where), self.quorum(decision.where)
            if machine.services is not None:
                machine.services.run(lambda: quorum.submit(decide, done))
        return decision

    def await_answer(self, decision: Decision, patience_ms: float = 4000) -> ErrorCode | None:
        what = f"decide {decision.name} at {decision.where}"
        if decision.where == "nobody":
            self.tell(f"decide {decision.name}: nobody leads")
            return None
        end = self.world.now_ms + patience_ms
        while decision.outcome is None and self.world.now_ms < end:
            self.run(STEP_MS)
        if decision.outcome is None:
            self.tell(f"{what}: no answer")
        else:
            self.tell(f"{what}: {decision.outcome.name if decision.outcome else 'ok'}")
        return decision.outcome
