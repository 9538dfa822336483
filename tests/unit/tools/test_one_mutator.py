"""The lint rule that keeps state machines from being written by others."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidelog_one_mutator", ROOT / "tools" / "one_mutator.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULE = load()


@pytest.mark.parametrize(
    "source",
    [
        "replica.epoch = 3",
        "hosted.replica.high_watermark = 1",
        "self._hosted.replica.high_watermark += 1",
        "replica.epoch, other = 1, 2",
        "self._election.needed = True",
        "quorum.election.timing = TIMING",
        "node.controller.active = True",
        "del replica.policy",
        "replica.progress[2] = Progress(0)",
        "replica.progress[2].end_offset = 5",
        "replica.progress.get(2).end_offset = 5",
        "replica.progress.pop(2)",
        "replica.watermark.offset = 1",
        "watermark = hosted.replica.watermark\nwatermark.offset = 1",
        "controller._must_know.clear()",
        "setattr(election, 'forgot', True)",
        "for replica.epoch in range(3): ...",
        # By another name.
        "mine = hosted.replica\nmine.epoch = 3",
        "first, second = hosted.replica, 2\nfirst.epoch = 3",
        "made = Replica(1, log)\nmade.epoch = 3",
        "known = replica.progress\nknown[2] = 5",
        "def look(seen: Replica) -> None:\n    seen.epoch = 3",
        "def look(seen: 'Election | None') -> None:\n    seen.epoch = 3",
        "(mine := driver.replica).epoch = 3",
        "if (mine := driver.replica):\n    mine.epoch = 3",
        "mine = driver.replica if driver else None\nmine.epoch = 3",
        "for each in driver.replica.progress.values():\n    each.seen = False",
        "for broker, each in list(replica.progress.items()):\n    each.seen = False",
        "for each in (driver.replica, 2):\n    each.epoch = 3",
        "[each.fetched(1, 2, 3) for each in replica.progress.values()]",
        "{setattr(each, 'seen', True) for each in replica.progress.values()}",
        "late = [each for each in replica.progress.values() if each.seen]\nlate[0].seen = False",
        "next(iter(replica.progress.values())).seen = False",
        "replica.watermark.offset = 3",
        "replica.watermark.diverged(3, unclean=False)",
        "def look(of: Watermark) -> None:\n    of.offset = 3",
        "def look(of: Progress) -> None:\n    of.seen = True",
        "object.__setattr__(replica, 'epoch', 3)",
        "replica.__setattr__('epoch', 3)",
        "vars(replica)['epoch'] = 3",
        "replica.__dict__['epoch'] = 3",
        # A step of an event.
        "replica._set_members((1, 2))",
        "driver.replica._set_members((1, 2))",
        "class Hosted:\n    def lead(self):\n        self.replica.epoch = 3",
        "def outer(replica):\n    def inner():\n        replica.epoch = 3",
        # Handed to others.
        "later(replica._advance)",
        "any(map(replica.progress.pop, gone))",
        "later = partial(replica.pending.append, 1)",
        "heapq.heappush(replica.pending, 1)",
        # In place, by a local name.
        "known = replica.members\nknown |= {1}",
        "known = replica.members\nknown += [1]",
        # In fields, containers and patterns.
        "class A:\n    def __init__(self, replica):\n        self._core = replica\n"
        "    def f(self):\n        self._core.epoch = 3",
        "class A:\n    _core: Replica\n    def f(self):\n        self._core.epoch = 3",
        "class A:\n    def f(self):\n        self._core: Replica = make()\n        self._core.epoch = 3",
        "class A:\n    cores: dict[int, Replica]\n    def f(self):\n        self.cores[1].epoch = 3",
        "def f(cores: Mapping[int, Replica]) -> None:\n    cores[1].epoch = 3",
        "def f(cores: Sequence[Replica]) -> None:\n    for each in cores:\n        each.epoch = 3",
        "def f(core: Optional[Replica]) -> None:\n    core.epoch = 3",
        "def f(*cores: Replica) -> None:\n    cores[0].epoch = 3",
        "match hosted:\n    case Hosted(replica=mine):\n        mine.epoch = 3",
        "f = lambda replica: replica.members.clear()",
        "class Mine(Replica): ...",
    ],
)
def test_what_is_found(source: str) -> None:
    (found,) = RULE.findings_in(source, "broker/some.py")
    assert str(found).startswith("broker/some.py:")


@pytest.mark.parametrize(
    "source",
    [
        "replica.lead(1)",
        "replica = hosted.replica",
        "self.replica = replica",
        "self.election = self._ballots = None",
        "epoch = replica.epoch",
        "progress = dict(replica.progress)\nprogress[2] = 5",
        "progress = list(replica.progress.values())\nprogress.append(5)",
        "late = [each.seen for each in replica.progress.values()]\nlate[0] = False",
        "for each in replica.progress.values():\n    each = other\n    each.seen = False",
        "replica.watermark.log_restarted(3)",
        "self._look(replica)",
        # What it asks is not a part of it.
        "replica.log.config = config",
        # A broker's number.
        "def restarted(self, replica: int) -> None:\n    self.progress[replica] = Progress(0)",
        "class A:\n    cores: dict[int, Replica]\n    def f(self):\n        self.cores[1] = Replica(2)",
        "class A:\n    core: Replica\n    def f(self):\n        self.core = Replica(2)",
        "def f(find: Callable[[int], Replica]) -> None:\n    find.calls = 1",
        "seen = replica.high_watermark\nseen += 1",
        "found = election.votes - 1",
        # The class itself.
        "class Replica:\n    def lead(self):\n        self.epoch = 3\n        self.progress[2].seen = True",
    ],
)
def test_what_is_not(source: str) -> None:
    assert RULE.findings_in(source, "broker/some.py") == []


@pytest.mark.slow
def test_nothing_in_the_sources() -> None:
    assert list(RULE.check(ROOT / "src" / "tidelog")) == []
