"""The steps of a small world. A scope names those it uses; limited ones end with their budget.

A step that changes nothing leads to a visited state, so only the possibility of a step must be stated, not
its use.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

from tidelog.config.modes import MODES
from tidelog.config.topic import REPLICATION_MODE
from tidelog.sim.explore.node import CONTROLLER, TOPIC
from tidelog.sim.explore.search import Action, Actions
from tidelog.sim.explore.world import SILENCE_MS, Flight, World

Kind = Callable[[World], Iterator[Action]]

ROUNDS = 3  # of asking, in one election
ROUND_MS = 1000


def _has(world: World, budget: str) -> bool:
    return world.budgets.get(budget, 0) > 0


def _calling(number: int, step: str) -> Callable[[World], None]:
    """One node does something."""

    def run(child: World) -> None:
        child.call(number, step)

    return run


def _paid(budget: str, run: Callable[[World], None]) -> Callable[[World], None]:
    def paid(world: World) -> None:
        world.spend(budget)
        run(world)

    return paid


# --- records ------------------------------------------------------------------------------------------------


def produce(world: World) -> Iterator[Action]:
    if not _has(world, "records"):
        return
    value = f"r{world.seen.produced + 1}"
    for number in world.running:
        if world.node(number).leads():

            def run(child: World, number: int = number) -> None:
                child.seen = child.seen._replace(produced=child.seen.produced + 1)
                child.call(number, "produce", value)

            yield Action(f"node {number} takes {value}", _paid("records", run))


def fetch(world: World) -> Iterator[Action]:
    """A follower fetches from its leader, and takes the response."""
    for number in world.running:
        leader = world.node(number).follows()
        if leader in world.running:

            def run(child: World, number: int = number, leader: int = leader) -> None:
                part = child.call(leader, "count", child.node(number).ask())
                child.call(number, "take", leader, part)

            yield Action(f"node {number} fetches from node {leader}", run)


def fetch_unanswered(world: World) -> Iterator[Action]:
    """The request arrives, the response does not."""
    if not _has(world, "lost answers"):
        return
    for number in world.running:
        leader = world.node(number).follows()
        if leader in world.running:

            def run(child: World, number: int = number, leader: int = leader) -> None:
                child.call(leader, "count", child.node(number).ask())

            label = f"node {number} asks node {leader}, and the answer is lost"
            yield Action(label, _paid("lost answers", run))


# --- time ---------------------------------------------------------------------------------------------------


def pass_time(world: World) -> Iterator[Action]:
    """A node's retries and timers fire."""
    for number in world.running:
        if world.node(number).has_to_do:
            yield Action(f"time passes at node {number}", _calling(number, "pass_time"))


def repeat(world: World) -> Iterator[Action]:
    """The same, only if nothing else is pending: repeated messages fill the network."""
    if _has(world, "repeats"):
        for action in pass_time(world):
            yield Action(action.label, _paid("repeats", action.run))


def stand(world: World) -> Iterator[Action]:
    """After a long silence a node requests votes, and hears some of the others."""
    if not _has(world, "elections"):
        return
    for number in world.running:
        driver = world.node(number).driver
        if driver is None or not driver.voter.watches_leader:
            continue
        others = [other for other in world.running if other != number]
        for size in range(1, len(others) + 1):
            for heard in combinations(others, size):
                names = " and ".join(map(str, heard))
                yield Action(
                    f"after a silence node {number} asks for votes, and hears {names}",
                    _paid("elections", _election(number, frozenset((number, *heard)))),
                )


def _election(number: int, reach: frozenset[int]) -> Callable[[World], None]:
    def run(child: World) -> None:
        begin_ms = child.clock_ms - child.clock_ms % SILENCE_MS + SILENCE_MS
        for round_number in range(ROUNDS):
            child.pass_silence(begin_ms + round_number * ROUND_MS)
            goes_on = child.call(number, "stand")
            child.settle(reach)
            if not goes_on or child.node(number).leads():
                break

    return run


# --- faults -------------------------------------------------------------------------------------------------


def kill(world: World) -> Iterator[Action]:
    if _has(world, "kills"):
        for number in world.running:

            def run(child: World, number: int = number) -> None:
                child.kill(number)

            yield Action(f"node {number} is killed", _paid("kills", run))


def start(world: World) -> Iterator[Action]:
    for number in world.nodes:
        if number not in world.running:

            def run(child: World, number: int = number) -> None:
                child.start(number)

            yield Action(f"node {number} starts", run)


def start_empty(world: World) -> Iterator[Action]:
    if not _has(world, "disks"):
        return
    for number in world.nodes:
        if number not in world.running:

            def run(child: World, number: int = number) -> None:
                child.replace_disk(number)
                child.start(number)

            yield Action(f"node {number} starts with an empty disk", _paid("disks", run))


def start_without_log(world: World) -> Iterator[Action]:
    """The directory of the partition, and nothing else, is removed."""
    if not _has(world, "logs"):
        return
    for number in world.nodes:
        if number not in world.running and world.rows(number):

            def run(child: World, number: int = number) -> None:
                child.remove_log(number)
                child.start(number)

            yield Action(f"node {number} starts, and its log was removed", _paid("logs", run))


def damage(world: World) -> Iterator[Action]:
    if not _has(world, "damage"):
        return
    for number in world.running:
        driver = world.node(number).driver
        if driver is not None and driver.damage.offset is None and driver.log.end_offset > 0:

            def run(child: World, number: int = number) -> None:
                child.call(number, "damage")
                child.call(number, "notice_damage")

            yield Action(f"node {number} finds its log damaged", _paid("damage", run))


# --- the operator -------------------------------------------------------------------------------------------


def change_mode(world: World) -> Iterator[Action]:
    if not _has(world, "modes"):
        return
    wanted = world.image.topics[TOPIC].configs[REPLICATION_MODE]
    for mode in MODES:
        if mode != wanted:

            def run(child: World, mode: str = mode) -> None:
                child.configure({REPLICATION_MODE: mode})

            yield Action(f"the topic's mode is set to {mode}", _paid("modes", run))


# --- the controllers ----------------------------------------------------------------------------------------


def fence(world: World) -> Iterator[Action]:
    if not _has(world, "fences"):
        return
    for number, broker in world.image.brokers.items():
        if not broker.fenced:

            def run(child: World, number: int = number) -> None:
                child.decided(child.around.controller.fence(child.image, number))

            yield Action(f"node {number} is fenced", _paid("fences", run))


def unfence(world: World) -> Iterator[Action]:
    """A node with all metadata is unfenced."""
    for number in world.running:
        if world.image.brokers[number].fenced and not world.unheard.get(number):

            def run(child: World, number: int = number) -> None:
                child.decided(child.around.controller.unfence(child.image, number))

            yield Action(f"node {number} is fenced no more", run)


def hear(world: World) -> Iterator[Action]:
    for number in world.running:
        if world.unheard.get(number):

            def run(child: World, number: int = number) -> None:
                child.hear(number)

            yield Action(f"node {number} hears of the metadata", run)


def deliver(world: World) -> Iterator[Action]:
    """A message arrives. One that never does is lost."""
    for flight in dict.fromkeys(world.flights):

        def run(child: World, flight: Flight = flight) -> None:
            flights = list(child.flights)
            flights.remove(flight)
            child.flights = tuple(flights)
            _arrive(child, flight)

        yield Action(_named(flight), run)


def deliver_twice(world: World) -> Iterator[Action]:
    """A message arrives, and its duplicate is still in flight."""
    if _has(world, "doubles"):
        for flight in dict.fromkeys(world.flights):

            def run(child: World, flight: Flight = flight) -> None:
                _arrive(child, flight)

            yield Action(f"{_named(flight)}; a double of it is under way", _paid("doubles", run))


def _arrive(child: World, flight: Flight) -> None:
    message = flight.message
    if flight.to == CONTROLLER:
        for answer in child.handle(message):  # type: ignore[arg-type]
            child.flights = (*child.flights, Flight(message.sender, answer))  # type: ignore[union-attr]
    elif flight.to in child.running:
        child.call(flight.to, "told", message)


def _named(flight: Flight) -> str:
    message = flight.message
    ask = getattr(message, "ask", message)
    proposal = getattr(ask, "proposal", None)
    if proposal is None:
        return f"{type(ask).__name__} arrives at {flight.to or 'the controllers'}"
    said = f"of node {proposal.broker_id} for members {', '.join(map(str, proposal.members))}"
    if flight.to == CONTROLLER:
        return f"the proposal {said} arrives at the controllers"
    return f"the answer {message.error.name} to the proposal {said} arrives"  # type: ignore[union-attr]


def all_of(*kinds: Kind) -> Actions:
    def actions(world: World) -> Iterator[Action]:
        for kind in kinds:
            yield from kind(world)

    return actions
