"""One word per idea: names against the glossary of ARCHITECTURE.md."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tidelog"
CORE = (
    "broker", "client", "config", "controller", "groups", "log", "protocol", "replication", "runtime",
    "security", "transactions",
)  # fmt: skip
SIMULATOR = "sim"  # Stories call a client's answers what they are; its digests are compared between versions.
KAFKA_NAMES = (
    "broker/handlers/",
    "runtime/peers/",
)  # Named by Kafka's requests, and by the messages they carry.

# Names from before the glossary. The list only gets shorter: delete what has been renamed.
_PENDING = """
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


def _modules() -> Iterator[tuple[Path, str]]:
    """Of the core."""
    for path, module in _all_modules():
        if "/" not in module or module.split("/")[0] in CORE:
            yield path, module


def _all_modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module.split("/")[0] != SIMULATOR:
            yield path, module


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """The garbage collector would look at them until all tests have run."""
    yield
    _tree.cache_clear()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names() -> Iterator[tuple[str, str]]:
    """(module, name) of each public class, and of each module itself."""
    for path, module in _modules():
        if not path.stem.startswith("__"):
            yield module, path.stem
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield module, node.name


def _members(tree: ast.Module) -> Iterator[str]:
    """Names of classes, functions, parameters, fields and variables, aliases and constants among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _members_with_retired_words() -> dict[str, set[str]]:
    """Name → its modules."""
    retired = _retired()
    found: dict[str, set[str]] = defaultdict(set)
    for path, module in _all_modules():
        for name in (path.parent.name, path.stem, *_members(_tree(path))):
            if not retired.isdisjoint(_words(name)):
                found[name].add(module)
    return found


def _doubles() -> set[str]:
    modules: dict[str, set[str]] = defaultdict(set)
    for module, name in _names():
        if name[0].isupper():
            modules[name].add(module)
    return {f"{module}:{name}" for name, defined in modules.items() for module in defined if len(defined) > 1}


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


@pytest.mark.slow
def test_a_class_name_is_defined_once_in_the_core() -> None:
    assert _doubles() - PENDING == set()


@pytest.mark.slow
def test_names_use_words_as_the_glossary_means_them() -> None:
    assert _misused() - PENDING == set()


@pytest.mark.slow
def test_no_name_of_any_package_has_a_retired_word() -> None:
    assert _members_with_retired_words() == {}


def test_all_packages_but_the_simulator_are_read() -> None:
    read = {module.split("/")[0] for _, module in _all_modules() if "/" in module}
    assert read == {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {SIMULATOR}


def test_names_of_classes_functions_fields_and_variables_are_read() -> None:
    text = "Wish = int\nclass Hosted:\n  nobody: int\n  def settle(me, answer):\n    me.waiting, x = 1\n"
    assert set(_members(ast.parse(text))) == {
        "Wish", "Hosted", "nobody", "settle", "me", "answer", "waiting", "x",
    }  # fmt: skip


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
