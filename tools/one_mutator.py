"""The state machines change by their own events only: no code outside of ``Replica``, ``Election`` and
``Controller`` writes their fields, or what their fields hold. ``./dev lint`` runs this over the sources.

A machine is recognised by the names it goes by (``replica``, ``driver.replica``, ``self._election``), by
its type in a signature or of a field, also as what a container holds, by the call that makes it, and by
local names and fields that were given one: in an assignment, a loop, a comprehension or a pattern. What it
refers to and does not own (its log, its metadata store) may be written. Its private methods are not called
from outside, nor handed to others to call: they are steps of an event. It has no subclasses, except where
the simulator answers a question in its own way (``EXCEPTIONS``).

Not found: a machine or a part of it that a function returns or a container holds, unless its name says what
it is.
"""

import ast
import re
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
EXCEPTIONS = {
    ("sim/explore/controller.py", "_Controller"): "in a small scope, every broker was heard a moment ago"
}
"""(file, subclass of a machine) → why."""
PARTS = {
    "Progress": "replication/progress.py",
    "Watermark": "replication/watermark.py",
    "PendingProduces": "replication/pending_produces.py",
    "InSyncProposals": "replication/in_sync_proposals.py",
    "Degrading": "replication/policies/degrading.py",
}
"""Classes of objects that a machine owns → where they are defined."""
EVENTS_OF_PARTS = frozenset(
    {"accepted", "give_up_from", "give_up_missing", "log_begins", "log_damaged_from", "log_restarted"}
)
"""Events of ``Watermark`` that count in any role: the driver of a replica calls them on the part. Every other
method of a part that changes it is a step of an event of its machine.
"""
# What changes a container in place.
CONTAINER_CHANGES = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
        "remove", "reverse", "setdefault", "sort", "update",
    }
)  # fmt: skip
# Of a container: the elements are the same objects, the container is another one or only a view.
VIEWS = frozenset({"values", "items", "keys", "copy"})
COPIES = frozenset(
    {"dict", "enumerate", "filter", "iter", "list", "reversed", "set", "sorted", "tuple", "zip"}
)
ONE_OF = frozenset({"max", "min", "next"})
# Of a function that changes its first argument.
CHANGES_FIRST = frozenset(
    {
        "heapify", "heappop", "heappush", "heappushpop", "heapreplace",
        "insort", "insort_left", "insort_right", "shuffle",
    }
)  # fmt: skip
OF_SETS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
WORD = re.compile(r"\w+")
SETTERS = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})


def _writers(source: str, name: str) -> Iterator[str]:
    """The methods of a class that write a field of ``self``."""
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.ClassDef) and each.name == name:
            for method in each.body:
                if isinstance(method, ast.FunctionDef) and any(map(_is_write_to_self, ast.walk(method))):
                    yield method.name


def _is_write_to_self(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store() | ast.Del()):
            return True
    return False


CHANGES = CONTAINER_CHANGES | {
    writer
    for name, path in PARTS.items()
    for writer in _writers((ROOT / "src" / "tidelog" / path).read_text(), name)
    if not writer.startswith("__") and writer not in EVENTS_OF_PARTS
}


class Kind(Enum):
    MACHINE = "machine"
    PART = "part of its state"
    COPY = "another container of parts of its state"


_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} changes it from outside; use an event of its class"


class _Scope(ast.NodeVisitor):
    """One function, or the body of a module or class."""

    def __init__(
        self, path: str, known: dict[str, Kind | None], fields: dict[str, Kind] | None = None
    ) -> None:
        self._path = path
        self._kinds = dict(known)  # Of local names.
        self._fields = fields or {}  # Of the fields of ``self`` that go by another name.
        self.findings: list[Finding] = []

    def _inner(self) -> "_Scope":
        return _Scope(self._path, self._kinds, self._fields)

    def kind(self, node: ast.expr) -> Kind | None:
        match node:
            case ast.Name(id=name):
                return self._kinds.get(name, Kind.MACHINE if name in NAMES else None)
            case ast.Attribute():
                return self._kind_of_attribute(node)
            case ast.Subscript(value=owner):
                return self._element(owner)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                return self.kind(value)
            case ast.IfExp(body=first, orelse=second):
                return self.kind(first) or self.kind(second)
            case ast.BoolOp(values=values):
                return next((kind for each in values if (kind := self.kind(each)) is not None), None)
            case ast.Call():
                return self._kind_of_call(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._kind_of_comprehension(node)
        return None

    def _kind_of_attribute(self, node: ast.Attribute) -> Kind | None:
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self._fields:
            return self._fields[node.attr]
        if self.kind(node.value) is not None:
            return None if node.attr in SURROUNDINGS else Kind.PART
        return Kind.MACHINE if node.attr in NAMES else None

    def _kind_of_call(self, node: ast.Call) -> Kind | None:
        match node.func:
            case ast.Name(id=name) if name in CLASSES:
                return Kind.MACHINE
            case ast.Name(id=name) if name in COPIES | ONE_OF:
                if all(self._element(each) is None for each in node.args):
                    return None
                return Kind.COPY if name in COPIES else Kind.PART
            case ast.Name(id="vars") if node.args and self.kind(node.args[0]) is not None:
                return Kind.PART
            case ast.Attribute(value=owner, attr="get" | "pop" | "popleft" | "setdefault"):
                return self._element(owner)
            case ast.Attribute(value=owner, attr=attr) if attr in VIEWS and self._element(owner):
                return Kind.COPY
        return None

    def _kind_of_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Kind | None:
        inner = self._inner()
        for each in node.generators:
            inner._elements(each.target, each.iter)
        return None if inner.kind(node.elt) is None else Kind.COPY

    def _element(self, container: ast.expr) -> Kind | None:
        """What a container holds."""
        return Kind.PART if self.kind(container) in (Kind.PART, Kind.COPY) else None

    # --- what is written ------------------------------------------------------------------------------------

    def _written(self, target: ast.expr) -> None:
        match target:
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for each in targets:
                    self._written(each)
            case ast.Starred(value=inside):
                self._written(inside)
            case ast.Attribute(value=owner) if self.kind(owner) in (Kind.MACHINE, Kind.PART):
                self._found(target)
            case ast.Subscript(value=owner) if self.kind(owner) is Kind.PART:
                self._found(target)

    def _found(self, node: ast.expr) -> None:
        if not any(each.line == node.lineno for each in self.findings):
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

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._name(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._written(node.target)
        # A set or list by a local name, which this changes in place. A number would be another one.
        if isinstance(node.target, ast.Name) and self.kind(node.target) is Kind.PART:
            of_set = isinstance(node.op, OF_SETS) and isinstance(node.value, ast.Set | ast.SetComp)
            if of_set or isinstance(node.op, ast.BitOr) or isinstance(node.value, ast.List | ast.ListComp):
                self._found(node.target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._written(node.target)
            self._name(node.target, node.value)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._written(target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._written(node.target)
        self._elements(node.target, node.iter)
        self.generic_visit(node)

    visit_AsyncFor = visit_For  # noqa: N815 - the name that ast asks for

    def _elements(self, target: ast.expr, container: ast.expr) -> None:
        """Local names for the elements of a container."""
        kind = self._element(container)
        if isinstance(container, ast.Tuple | ast.List):
            kind = next((kind for each in container.elts if (kind := self.kind(each)) is not None), None)
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                self._kinds[each.id] = kind

    def _visit_comprehension(self, node: _Comprehension) -> None:
        inner = self._inner()
        for each in node.generators:
            inner._written(each.target)
            inner._elements(each.target, each.iter)
        inner.generic_visit(node)
        self.findings += inner.findings

    visit_ListComp = _visit_comprehension  # noqa: N815 - the names that ast asks for
    visit_SetComp = _visit_comprehension  # noqa: N815
    visit_DictComp = _visit_comprehension  # noqa: N815
    visit_GeneratorExp = _visit_comprehension  # noqa: N815

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._written(node.optional_vars)
            self._name(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """``case Hosted(replica=mine)``."""
        for attr, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            if attr in NAMES and isinstance(pattern, ast.MatchAs) and pattern.name is not None:
                self._kinds[pattern.name] = Kind.MACHINE
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A method that changes it, whether it is called here or handed to others."""
        of = self.kind(node.value)
        if (node.attr in CHANGES and of is Kind.PART) or (_is_private(node.attr) and of is Kind.MACHINE):
            self._found(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=owner, attr=attr) if attr in SETTERS and self.kind(owner) is not None:
                self._found(node)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in SETTERS and node.args:
                if self.kind(node.args[0]) is not None:
                    self._found(node)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in CHANGES_FIRST and node.args:
                if self.kind(node.args[0]) is Kind.PART:
                    self._found(node)
        self.generic_visit(node)

    # --- scopes within --------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inner = self._inner()
        inner._arguments(node.args)
        inner._look(node.body)
        self.findings += inner.findings

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast asks for

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            known = (self._path, node.name) in EXCEPTIONS
            if ast.unparse(base).split(".")[-1] in CLASSES and not known:
                self._found(base)
        # A machine, or a part of one, may write what its own fields hold.
        owns = node.name in CLASSES or node.name in PARTS
        inner = _Scope(self._path, self._kinds, {} if owns else dict(self._fields_of(node)))
        inner._look(node.body)
        self.findings += inner.findings

    def visit_Lambda(self, node: ast.Lambda) -> None:
        inner = self._inner()
        inner._arguments(node.args)
        inner.visit(node.body)
        self.findings += inner.findings

    def _fields_of(self, node: ast.ClassDef) -> Iterator[tuple[str, Kind]]:
        """Fields that hold a machine or a part by their declaration, or because a method gives them one."""
        for each in ast.walk(node):
            match each:
                case ast.AnnAssign(
                    target=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name),
                    annotation=annotation,
                ) if (kind := _kind_by(annotation)) is not None:
                    yield name, kind
                case ast.FunctionDef(args=arguments):
                    inner = self._inner()
                    inner._arguments(arguments)
                    for name, value in _given(each):
                        if inner.kind(value) is Kind.MACHINE:
                            yield name, Kind.MACHINE

    def _arguments(self, arguments: ast.arguments) -> None:
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if each.annotation is not None:
                # ``replica: int`` is a broker's number.
                self._kinds[each.arg] = _kind_by(each.annotation)
        several = arguments.vararg
        if several is not None and several.annotation is not None and _kind_by(several.annotation):
            self._kinds[several.arg] = Kind.COPY

    def _look(self, body: Sequence[ast.stmt]) -> None:
        for each in body:
            self.visit(each)


def _kind_by(annotation: ast.expr) -> Kind | None:
    """What is declared to be of this type."""
    text = ast.unparse(annotation).strip("'\"")
    words = set(WORD.findall(text))
    if "Callable" in words or not words & (CLASSES | PARTS.keys()):
        return None
    if "[" in text and not text.startswith("Optional["):
        return Kind.COPY
    return Kind.MACHINE if words & CLASSES else Kind.PART


def _given(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The fields of ``self`` that a method assigns, with their values."""
    for each in ast.walk(function):
        match each:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                yield name, value


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


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
