"""One word per idea: class and module names of the core against the glossary of ARCHITECTURE.md."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tidelog"
CORE = (
    "broker", "client", "config", "controller", "groups", "log", "protocol", "replication", "runtime",
    "transactions",
)  # fmt: skip
KAFKA_NAMES = (
    "broker/handlers/",
    "runtime/peers/",
)  # Named by Kafka's requests, and by the messages they carry.

# Class names that mean the same in each of their modules.
SHARED = {
    "NodeState": "what parts of a node know of it",
    "PendingRequest": "a request of a client or of a node without its response",
}

# Names from before the glossary. The list only gets shorter: delete what has been renamed.
_PENDING = """
broker/coordinators/shard.py:Machine
broker/coordinators/shard.py:State
broker/metadata/voters.py:Wish
broker/node/failed_logs.py:FailedLogs
broker/node/failed_logs.py:Standing
broker/node/kept_promises.py:Standing
broker/node/membership.py:Membership
broker/partitions/validation.py:Checked
broker/producing/opening.py:Asker
broker/producing/opening.py:Opening
broker/quorum/voters.py:QuorumVoters
broker/registry.py:Api
broker/requests/committing.py:Wanted
client/apis.py:Api
client/connection.py:Connection
client/errors.py:OffsetOutOfRange
config/controllers.py:QuorumVoters
config/listeners.py:Listener
controller/alike.py:alike
controller/elections.py:InSyncWish
controller/elections.py:elections
controller/leadership.py:Place
controller/standing.py:Standing
controller/standing.py:standing
controller/topics.py:TopicWish
errors.py:OffsetOutOfRange
groups/classic/leaving.py:Leaving
groups/classic/membership.py:Membership
groups/classic/messages.py:DescribedMember
groups/classic/messages.py:Description
groups/classic/messages.py:JoinAnswer
groups/classic/messages.py:Leaving
groups/classic/messages.py:SyncAnswer
groups/classic/states.py:State
groups/classic/syncing.py:Syncing
groups/consumer/description.py:DescribedMember
groups/consumer/description.py:Description
groups/consumer/heartbeats.py:HeartbeatAnswer
groups/consumer/records.py:GroupRecord
groups/consumer/records.py:MemberRecord
groups/consumer/view.py:View
groups/consumer/waits.py:Wait
groups/records.py:GroupRecord
groups/records.py:MemberRecord
log/lookup.py:Seen
log/lookup.py:Wanted
log/opening.py:Opening
log/producers.py:Producer
log/scan.py:Place
log/state.py:LogState
log/storage.py:Entry
log/syncing.py:Syncing
log/verification.py:Checked
machine.py:Machine
protocol/envelope.py:Answer
protocol/fetch.py:Answer
protocol/fetch.py:PartitionAnswer
protocol/fetch.py:Records
protocol/follower_fetch.py:Asker
protocol/follower_fetch.py:Records
protocol/produce.py:PartitionAnswer
replication/effects.py:Settle
replication/election.py:State
replication/hosted.py:Hosted
replication/hosted.py:hosted
replication/listeners.py:Listener
replication/listeners.py:Nobody
replication/listeners.py:Seen
replication/replica.py:Answer
replication/replica.py:LogState
replication/replica.py:Waiting
replication/serving.py:Serving
replication/serving.py:Standing
replication/serving.py:serving
replication/snapshots.py:Snapshots
replication/view.py:View
replication/view.py:Wait
replication/votes.py:AnswerVote
replication/voting.py:Voting
runtime/connection.py:Connection
runtime/connection.py:Waiting
runtime/peers/controller_exchanges.py:FailedLogs
runtime/peers/inbound.py:Waiting
runtime/peers/replica_exchanges.py:Snapshots
runtime/peers/replica_exchanges.py:Voting
shard_effects.py:Answer
transactions/entry.py:Entry
transactions/rules.py:EndWish
transactions/rules.py:Producer
transactions/states.py:State
"""
PENDING = frozenset(_PENDING.split())


def _section() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return text.partition("## Glossary\n")[2].partition("\n## ")[0]


def _glossary() -> dict[str, frozenset[str]]:
    """Word → packages that may use it in names; empty: any."""
    words: dict[str, frozenset[str]] = {}
    for line in _section().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] not in ("word", "---"):
            for word in cells[0].split(", "):
                assert word not in words, f"the glossary has {word!r} twice"
                words[word] = frozenset(re.findall(r"`(\w+)`", cells[2]))
    return words


def _retired() -> frozenset[str]:
    match = re.search(r"Not used in names[^*]*\*([^*]+)\*", _section())
    assert match is not None
    return frozenset(match[1].split(", "))


def _words(name: str) -> Iterator[str]:
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name):
        yield word.lower()
        yield word.lower().removesuffix("s")


def _names() -> Iterator[tuple[str, str]]:
    """(module, name) of each public class, and of each module itself."""
    packages = [path for package in CORE for path in (SOURCE / package).rglob("*.py")]
    for path in sorted([*SOURCE.glob("*.py"), *packages]):
        module = path.relative_to(SOURCE).as_posix()
        if not path.stem.startswith("__"):
            yield module, path.stem
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield module, node.name


def _doubles() -> set[str]:
    modules: dict[str, set[str]] = defaultdict(set)
    for module, name in _names():
        if name[0].isupper():
            modules[name].add(module)
    return {
        f"{module}:{name}"
        for name, defined in modules.items()
        for module in defined
        if len(defined) > 1 and name not in SHARED
    }


def _misused() -> set[str]:
    """Names with a retired word, or with a word of the glossary outside of its packages."""
    glossary, retired = _glossary(), _retired()

    def is_outside(word: str, module: str) -> bool:
        packages = glossary.get(word, frozenset())
        return "/" in module and bool(packages) and module.split("/")[0] not in packages

    return {
        f"{module}:{name}"
        for module, name in _names()
        if not module.startswith(KAFKA_NAMES)
        for word in _words(name)
        if word in retired or is_outside(word, module)
    }


def test_a_class_name_is_defined_once_in_the_core() -> None:
    assert _doubles() - PENDING == set()


def test_names_use_words_as_the_glossary_means_them() -> None:
    assert _misused() - PENDING == set()


def test_the_glossary_names_packages_that_exist() -> None:
    assert {package for packages in _glossary().values() for package in packages} <= set(CORE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("InSyncAsk", {"in", "sync", "ask"}),
        ("HTTPServer", {"http", "server"}),
        ("fetch_sessions", {"fetch", "session", "sessions"}),
    ],
)
def test_names_are_split_into_words(name: str, words: set[str]) -> None:
    assert words <= set(_words(name))
