"""The state machines change by their own events only: no code outside of ``Replica``, ``Election`` and
``Controller`` writes their fields, or what their fields hold. ``./dev lint`` runs this over the sources.

A machine is recognised by the names it goes by (``replica``, ``driver.replica``, ``self._election``), by its
type in a signature, by the call that makes it, and by local names that were given one. What it refers to and
does not own (its log, its metadata store) may be written.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("replication", "controller", "broker", "runtime", "sim", "testing")
CLASSES = frozenset({"Replica", "Election", "Controller"})
NAMES = frozenset(name for each in CLASSES for name in (each.lower(), f"_{each.lower()}"))
SURROUNDINGS = frozenset({"log", "_store"})
# What changes a container in place.
CHANGES = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "fetched", "insert", "pop", "popitem",
        "popleft", "remove", "setdefault", "sort", "update",
    }
)  # fmt: skip


class Kind(Enum):
    MACHINE = "machine"
    PART = "part of its state"


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} is written from outside; use an event of its class"


class _Scope(ast.NodeVisitor):
    """One function, or the body of a module or class."""

    def __init__(self, path: str, known: dict[str, Kind | None]) -> None:
        self._path = path
        self._kinds = dict(known)  # Of local names.
        self.findings: list[Finding] = []

    def kind(self, node: ast.expr) -> Kind | None:
        match node:
            case ast.Name(id=name):
                return self._kinds.get(name, Kind.MACHINE if name in NAMES else None)
            case ast.Attribute(value=owner, attr=attr):
                of = self.kind(owner)
                if of is not None:
                    return None if attr in SURROUNDINGS else Kind.PART
                return Kind.MACHINE if attr in NAMES else None
            case ast.Subscript(value=owner):
                return Kind.PART if self.kind(owner) is Kind.PART else None
            case ast.Call(func=ast.Name(id=name)):
                return Kind.MACHINE if name in CLASSES else None
            case ast.Call(func=ast.Attribute(value=owner, attr="get")):
                return Kind.PART if self.kind(owner) is Kind.PART else None
        return None

    # --- what is written ------------------------------------------------------------------------------------

    def _written(self, target: ast.expr) -> None:
        match target:
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for each in targets:
                    self._written(each)
            case ast.Starred(value=inside):
                self._written(inside)
            case ast.Attribute(value=owner) if self.kind(owner) is not None:
                self._found(target)
            case ast.Subscript(value=owner) if self.kind(owner) is Kind.PART:
                self._found(target)

    def _found(self, node: ast.expr) -> None:
        self.findings.append(Finding(self._path, node.lineno, ast.unparse(node)))

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._written(target)
            self._name(target, node.value)
        self.generic_visit(node)

    def _name(self, target: ast.expr, value: ast.expr) -> None:
        """A local name for a machine, or no longer one."""
        if isinstance(target, ast.Name):
            self._kinds[target.id] = self.kind(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, of in zip(target.elts, value.elts, strict=False):
                self._name(each, of)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._written(node.target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._written(node.target)
            self._name(node.target, node.value)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._written(target)

    def visit_For(self, node: ast.For) -> None:
        self._written(node.target)
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._written(node.optional_vars)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=owner, attr=attr) if attr in CHANGES and self.kind(owner) is Kind.PART:
                self._found(node)
            case ast.Name(id="setattr" | "delattr") if node.args and self.kind(node.args[0]) is not None:
                self._found(node)
        self.generic_visit(node)

    # --- scopes within --------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inner = _Scope(self._path, self._kinds)
        inner._arguments(node.args)
        inner._look(node.body)
        self.findings += inner.findings

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast asks for

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        inner = _Scope(self._path, self._kinds)
        inner._look(node.body)
        self.findings += inner.findings

    def _arguments(self, arguments: ast.arguments) -> None:
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if each.annotation is None:
                continue
            text = ast.unparse(each.annotation).strip("'\"")
            # ``replica: int`` is a broker's number.
            is_machine = bool(CLASSES & set(text.replace("|", " ").split()))
            self._kinds[each.arg] = Kind.MACHINE if is_machine else None

    def _look(self, body: Sequence[ast.stmt]) -> None:
        for each in body:
            self.visit(each)


def findings_in(source: str, path: str) -> list[Finding]:
    scope = _Scope(path, {})
    scope.visit(ast.parse(source))
    return scope.findings


def check(root: Path, packages: Sequence[str] = PACKAGES) -> Iterator[Finding]:
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            yield from findings_in(path.read_text(), str(path.relative_to(root)))


def main() -> int:
    findings = list(check(ROOT / "src" / "tidelog"))
    for each in findings:
        sys.stderr.write(f"{each}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
