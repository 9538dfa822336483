"""The lint rule that keeps questions about modes in the seam."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidelog_mode_seam", ROOT / "tools" / "mode_seam.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULE = load()
CORE = "broker/partitions/partition.py"


@pytest.mark.parametrize(
    "source",
    [
        "from tidelog.config.modes import QUORUM",
        "from tidelog.replication.policies.isr import IsrPolicy",
        "policy = BY_NAME['quorum']",
        "names = {ISR: 1}",
        "x = modes.PRIMARY_BACKUP",
        "if partition.mode == 'isr': ...",
        "if partition.mode in VOTING: ...",
        "if mode_of(topic.configs) != INTERNAL: ...",
        "match partition.mode:\n    case _: ...",
        "if MODES[partition.mode].leaders is ELECTED: ...",
        "votes = Leaders.ELECTED",
        "if hosted.replica.policy is MODES[partition.mode].policy: ...",
        "if isinstance(replica.policy, QuorumPolicy): ...",
        "if isinstance(hosted.voter, Elected): ...",
        "if isinstance(found, ReplicaSnapshots | AnyMember | LogVoters): ...",
        "if isinstance(found, stand_in.AnyMember): ...",
        "if type(driver.voter) is Elected: ...",
        "match driver.seal:\n    case Pausing(): ...",
        "mode = partition.mode\nif mode == wanted: ...",
        "if (now := partition.mode) == wanted: ...",
        "def f(mode: str) -> bool:\n    return mode == wanted",
        "def f(partition):\n    now, other = partition.mode, 2\n    return now in wanted",
        "if controller.mode_of(topic) == wanted: ...",
        "if hosted.election is None: ...",
        "if election is not None: ...",
        "if self._election == None: ...",
        "found = 1 if hosted.snapshots is not None else 2",
        "if mine.hosted.seal is None: ...",
        "if quorum is None: ...",
        "polls = NoPolls() if self._quorum is None else quorum",
        "if driver.voter: ...",
        "found = 1 if driver.seal else 2",
        "if not driver.restorer: ...",
        "if lost and self._quorum: ...",
        "def f(quorum: QuorumPartitions | None = None): ...",
        "def f(key) -> Elected | None: ...",
        "def f(key) -> 'Elected' | None: ...",
        "def f(key) -> Optional[Election]: ...",
        "self.voters: None | PartitionVoters = None",
        "self._known: dict[int, Elected] = {}\nvoter = self._known.get(key)",
        "self._known: dict[int, Elected] = {}\nvoter = self._known.get(key, None)",
        "def f(voters: Mapping[int, Elected]):\n    return voters.get(key)",
        # In other words.
        "if partition.mode.startswith(prefix): ...",
        "if partition.mode[0] == letter: ...",
        "x = len(partition.mode)",
        "x = operator.eq(partition.mode, wanted)",
        "if getattr(partition, 'mode') == wanted: ...",
        "while driver.voter: ...",
        "assert driver.seal",
        "x = bool(driver.voter)",
        "x = [driver for driver in drivers if driver.restorer]",
        "match driver.voter:\n    case None: ...",
        "if (voter := driver.voter) is None: ...",
        "voter = driver.voter\nif voter is None: ...",
        "def f(driver):\n    voter = driver.voter\n    return 1 if voter else 2",
        "if getattr(driver, 'voter') is None: ...",
        "x = hasattr(driver.voter, 'election')",
        "x = hasattr(driver.policy, 'degrading')",
        "x = type(replica.policy).__name__",
        "x = driver.seal.__class__",
        "row = MODES[partition.mode]\nx = row.leaders",
        "found = MODES[name]\nx = found.leaders",
        "self.voters: Union[PartitionVoters, None] = NO_VOTERS",
    ],
)
def test_a_question_about_modes_is_found(source: str) -> None:
    assert RULE.findings_in(source, CORE)


@pytest.mark.parametrize(
    "source",
    [
        "if before.mode != partition.mode: ...",
        "if mode_of(topic.configs) == partition.mode: ...",
        "before = old.mode\nif before != new.mode: ...",
        "def f(mode: Mode) -> bool:\n    return mode == wanted",
        "now = partition.mode\nnow = 3\nif now == 3: ...",
        "hosted.adopt(MODES[partition.mode])",
        "if hosted.voter.counts(follower, directory): ...",
        "if replica.policy.tracks_in_sync: ...",
        "voter = self._voters.get(hosted)\nif voter is None: ...",  # an entry of a voter set
        "self._known: dict[int, Elected] = {}\nself._known.pop(key, None)",
        "self._known: dict[int, Election] = {}\nif key in self._known: ...",
        "self._known: dict[int, Partition] = {}\nfound = self._known.get(key)",
        "def f(voter: Elected, partition: Partition | None): ...",
        "if contents.voters: ...",  # those of a snapshot
        "if driver.voter.may_vote and not driver.restorer.gathers: ...",
        "if seal is not None: ...",
        "def leaders(): return [1]",
        "text = 'a quorum of voters'",
        "voter = driver.voter\nvoter.look(now_ms)",
        "voter = driver.voter\nvoter = find()\nif voter is None: ...",
        "driver.replica.policy.committed(view)",
        "x = getattr(partition, 'leader')",
        "x = NAMES[partition.mode]",
    ],
)
def test_what_the_rows_answer_is_not(source: str) -> None:
    assert RULE.findings_in(source, CORE) == []


@pytest.mark.parametrize(
    "path",
    ["replication/policies/isr.py", "controller/successions/quorum.py", "replication/modes.py"],
)
def test_the_seam_knows_modes(path: str) -> None:
    assert RULE.findings_in("if partition.mode == QUORUM: ...", path) == []


def test_attachments_ask_for_each_other_and_for_no_mode() -> None:
    path = "replication/attachments/voter.py"
    assert RULE.findings_in("if self.election is None: ...", path) == []
    assert RULE.findings_in("def f(voter: Elected | None): ...", path) == []
    assert RULE.findings_in("if mode == QUORUM: ...", path)


def test_a_finding_says_where() -> None:
    (found,) = RULE.findings_in("class A:\n    def f(self):\n        return x.election is None\n", CORE)
    assert (found.path, found.function, found.line) == (CORE, "A.f", 3)


def test_an_exception_that_is_not_needed_is_found(tmp_path: Path) -> None:
    for package in RULE.PACKAGES:
        (tmp_path / package).mkdir()
    stale = [each for each in RULE.check(tmp_path) if "exception" in each.text]
    assert len(stale) == len(RULE.EXCEPTIONS)


def test_an_exception_is_none_for_missing_objects(tmp_path: Path) -> None:
    for package in RULE.PACKAGES:
        (tmp_path / package).mkdir()
    table = tmp_path / "broker" / "partitions" / "table.py"
    table.parent.mkdir()
    table.write_text(
        "class PartitionTable:\n"
        "    def __init__(self, quorum):\n"
        "        self.by = {Leaders.APPOINTED: 1}\n"
        "        if quorum is not None: ...\n"
    )
    assert [each.line for each in RULE.check(tmp_path) if each.path == "broker/partitions/table.py"] == [4, 1]


def test_it_knows_all_kinds() -> None:
    assert {"isr", "primary-backup", "quorum"} == RULE.WORDS
    assert {"DEFAULT", "INTERNAL"} == RULE.SPECIAL
    assert {"IsrPolicy", "PrimaryBackupPolicy", "QuorumPolicy"} == RULE.POLICIES
    assert {"Elected", "Sealing", "Restoring", "ReplicaSnapshots", "LogVoters", "AnyMember"} <= RULE.KINDS
    assert {"PartitionVoters", "MetadataVoters"} <= RULE.KINDS  # of the broker
    assert {"voter", "seal", "snapshots", "stand_in"} <= RULE.SLOTS


def test_the_core_asks_nothing_about_modes() -> None:
    assert [str(each) for each in RULE.check(ROOT / "src" / "tidelog")] == []
