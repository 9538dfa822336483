"""Which branches of the pure core the seeds took, and which they did not.

Branches are read from the sources (``if``, ``while``, ``for``, ``case``, ``except``); taken ones are recorded
by the interpreter's tracing, which is slow: a function with all branches taken is no longer traced. Branches
inside expressions (``and``, ``or``, a conditional expression, a comprehension) are not counted.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

WATCHED = ("tidelog.replication", "tidelog.controller", "tidelog.broker.quorum")
"""Packages, and modules by the beginning of their name."""

CONDITION_SHOWN = 90  # characters


class Branch(NamedTuple):
    """One branch of a statement."""

    module: str  # its file below the package, with slashes
    function: str
    line: int  # its current line
    condition: str  # its source, in one line
    way: str  # "true", "false", "entered", "ended"

    @property
    def package(self) -> str:
        return self.module.partition("/")[0]


class _Fork(NamedTuple):
    """A statement with its branches, by the lines that the interpreter reports."""

    first: int  # lines of the condition,
    last: int  # inclusive
    body: int  # first line of what follows when it holds
    into: Branch | None
    past: Branch | None


Trace = Any  # sys.settrace's type has no name.


class Branches:
    def __init__(self, watched: Sequence[str] = WATCHED) -> None:
        self.all: tuple[Branch, ...] = ()
        self.taken: set[Branch] = set()
        self.entered: set[tuple[str, str]] = set()  # functions: module and name
        self._names: dict[str, str] = {}  # file → module
        self._forks: dict[str, list[_Fork]] = {}  # file → its forks
        self._open: dict[CodeType, list[_Fork]] = {}  # functions that still have an untaken branch
        for path, name in _files(watched):
            forks = list(_Forks(name, path.read_text(encoding="utf-8")).found())
            self._forks[str(path)] = forks
            self._names[str(path)] = name
            self.all += tuple(way for fork in forks for way in (fork.into, fork.past) if way is not None)

    def never(self) -> list[Branch]:
        return [branch for branch in self.all if branch not in self.taken]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Package → branches that were taken, and all of them."""
        packages: dict[str, list[Branch]] = {}
        for branch in self.all:
            packages.setdefault(branch.package, []).append(branch)
        return {
            name: (sum(branch in self.taken for branch in branches), len(branches))
            for name, branches in packages.items()
        }

    def report(self) -> list[str]:
        """Untaken branches, by file and function. Lines are not named: they change with every edit."""
        lines, module = [], ""
        for (file, function), branches in _by_function(self.all).items():
            never = [branch for branch in branches if branch not in self.taken]
            if never and file != module:
                module = file
                lines.append(module)
            if never and (file, function) not in self.entered:
                lines.append(f"  {function}: never reached")
            else:
                lines += [f"  {function}: {text}" for text in _texts(never)]
        return lines

    @contextmanager
    def watch(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, value: Any) -> Trace:
        code = frame.f_code
        forks = self._open.get(code)
        if forks is None:
            forks = self._open[code] = self._forks_of(code)
        if not forks:
            return None
        before = 0  # The line that this frame was at.

        def step(frame: FrameType, event: str, value: Any) -> Trace:
            nonlocal before
            if event == "line":
                line = frame.f_lineno
                if before and before != line:
                    self._went(code, before, line)
                before = line
            elif event == "exception":
                before = 0  # Nothing branched here.
            elif event == "return" and before:
                self._went(code, before, 0)
            return step

        return step

    def _forks_of(self, code: CodeType) -> list[_Fork]:
        forks = self._forks.get(code.co_filename)
        if not forks:
            return []
        self.entered.add((self._names[code.co_filename], code.co_qualname.replace("<locals>.", "")))
        lines = {line for _, _, line in code.co_lines() if line is not None}
        return [fork for fork in forks if any(line in lines for line in range(fork.first, fork.last + 1))]

    def _went(self, code: CodeType, before: int, line: int) -> None:
        """A frame went from one line to another; 0: it returned."""
        closed = False
        for fork in self._open[code]:
            if fork.first <= before <= fork.last and not fork.first <= line <= fork.last:
                way = fork.into if line == fork.body else fork.past
                if way is not None and way not in self.taken:
                    self.taken.add(way)
                    closed = True
        if closed:
            self._open[code] = [
                fork
                for fork in self._open[code]
                if any(way is not None and way not in self.taken for way in (fork.into, fork.past))
            ]


class _Forks(ast.NodeVisitor):
    """The forks of one module, in order."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._tree = ast.parse(source)
        self._within: list[str] = []
        self._forks: list[_Fork] = []

    def found(self) -> list[_Fork]:
        self.visit(self._tree)
        return self._forks

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_named(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_named(node)

    def _visit_named(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()

    def visit_If(self, node: ast.If) -> None:
        self._fork(node.lineno, node.test, f"if {ast.unparse(node.test)}", node.body, "true", "false")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._fork(node.lineno, node.test, f"while {ast.unparse(node.test)}", node.body, "true", "false")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        text = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        self._fork(node.lineno, node.iter, text, node.body, "entered", "ended")
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        for case in node.cases:
            guard = f" if {ast.unparse(case.guard)}" if case.guard is not None else ""
            text = f"case {ast.unparse(case.pattern)}{guard}"
            end = case.guard if case.guard is not None else case.pattern
            wild = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            past = "" if wild and case.guard is None else "false"
            self._fork(case.pattern.lineno, end, text, case.body, "true", past)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        text = f"except {ast.unparse(node.type)}" if node.type is not None else "except"
        self._fork(node.lineno, node.type or node, text, node.body, "entered", "")
        self.generic_visit(node)

    def _fork(self, first: int, end: Any, text: str, body: Sequence[ast.stmt], into: str, past: str) -> None:
        if not self._within or "TYPE_CHECKING" in text:
            return  # Module-level code does not depend on the seed.
        last = end.lineno if isinstance(end, ast.ExceptHandler) else end.end_lineno

        def way(name: str) -> Branch | None:
            return Branch(self._module, ".".join(self._within), first, text, name) if name else None

        self._forks.append(_Fork(first, last, body[0].lineno, way(into), way(past)))


def _by_function(branches: Iterable[Branch]) -> dict[tuple[str, str], list[Branch]]:
    found: dict[tuple[str, str], list[Branch]] = {}
    for branch in branches:
        found.setdefault((branch.module, branch.function), []).append(branch)
    return found


def _texts(never: Iterable[Branch]) -> list[str]:
    """One for each statement: the branch it never took; if it took none, it was never reached."""
    ways: dict[tuple[int, str], list[str]] = {}
    for branch in never:
        ways.setdefault((branch.line, branch.condition), []).append(branch.way)
    return [
        f"{_short(condition)}: never {way[0] if len(way) == 1 else 'reached'}"
        for (_, condition), way in ways.items()
    ]


def _short(text: str) -> str:
    return text if len(text) <= CONDITION_SHOWN else text[:CONDITION_SHOWN] + "…"


def _files(watched: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Each source file in scope, and its name below the package."""
    for name in watched:
        package, _, beginning = name.rpartition(".") if name.endswith("*") else (name, "", "")
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            root = Path(place)
            pattern = beginning + ".py" if beginning else "**/*.py"
            for path in sorted(root.glob(pattern)):
                inner = package.split(".")[1:]
                yield path, "/".join([*inner, *path.relative_to(root).parts])
