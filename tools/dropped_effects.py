"""Effects are carried out, not dropped: the result of a function that returns effects is used. ``./dev lint``
runs this over the sources.

A call is a finding if its result is dropped and what it calls returns effects by its signature. A result is
dropped by a statement of its own, also within ``and``, ``or``, a conditional, a tuple or a comprehension that
is one, and by an assignment to ``_``. Recognised is a call of

- a method whose name only such methods have;
- a method of another name that is shared, if its object goes by the name of the class (``replica``,
  ``self._election``) or is ``self``;
- a function of the module.

Known gap: an object under another name, with a method whose name others have, too, is not recognised.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "tidelog"
EFFECTS = re.compile(r"\w*Effects$")
# Objects that go by another name than their class.
NAMES = {"proposals": "InSyncProposals", "pending": "PendingProduces"}


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: the effects of {self.text} are dropped; run them"


Function = ast.FunctionDef | ast.AsyncFunctionDef


class Statement(NamedTuple):
    node: ast.stmt
    owner: str  # the innermost class around it, or nothing


def statements_of(source: str) -> list[Statement]:
    """All statements of a module. No statement is within an expression, so expressions are not looked at."""
    found: list[Statement] = []
    _add_statements(ast.parse(source), "", found)
    return found


def _add_statements(node: ast.AST, owner: str, found: list[Statement]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(Statement(child, owner))
            _add_statements(child, child.name if isinstance(child, ast.ClassDef) else owner, found)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            _add_statements(child, owner, found)


class Signatures:
    """Which methods return effects, of all classes of the sources."""

    def __init__(self, modules: Iterable[Sequence[Statement]]) -> None:
        self.effectful: dict[str, set[str]] = defaultdict(set)  # class → its methods that return effects
        self._bases: dict[str, list[str]] = {}
        self._names: set[str] = set()
        plain: set[str] = set()
        for node in (each.node for statements in modules for each in statements):
            if isinstance(node, ast.ClassDef):
                self._bases[node.name] = [each.id for each in node.bases if isinstance(each, ast.Name)]
                for each in node.body:
                    if isinstance(each, Function) and returns_effects(each):
                        self.effectful[node.name].add(each.name)
                        self._names.add(each.name)
            elif isinstance(node, Function) and not returns_effects(node):
                plain.add(node.name)
        self._shared = self._names & plain

    def of(self, owner: str, method: str) -> bool:
        """Whether this method of the class, or of a base class, returns effects."""
        found = method in self.effectful.get(owner, ())
        return found or any(self.of(base, method) for base in self._bases.get(owner, ()))

    def anywhere(self, method: str) -> bool:
        """Whether every method of this name returns effects."""
        return method in self._names and method not in self._shared


def made_in(statements: Sequence[Statement]) -> dict[str, str]:
    """The classes of fields that are made in this module: ``self.name = Class(...)`` or ``Class.of(...)``."""
    found: dict[str, str] = {}
    for node, _ in statements:
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(func=ast.Name(id=made) | ast.Attribute(value=ast.Name(id=made))),
            ) if made[:1].isupper():
                found[name] = made
    return found


def returns_effects(function: Function) -> bool:
    match function.returns:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return EFFECTS.match(name) is not None
    return False


class _Rule:
    """What is known of the calls in one module."""

    def __init__(self, statements: Sequence[Statement], signatures: Signatures) -> None:
        self._signatures = signatures
        self._made = made_in(statements)
        functions = {
            node.name for node, _ in statements if isinstance(node, Function) and returns_effects(node)
        }
        methods = {
            each.name
            for node, _ in statements
            if isinstance(node, ast.ClassDef)
            for each in node.body
            if isinstance(each, Function)
        }
        self._functions = functions - methods

    def returns_effects(self, called: ast.expr, owner: str) -> bool:
        match called:
            case ast.Name(id=name):
                return name in self._functions
            case ast.Attribute(value=ast.Name(id="self"), attr=method) if owner:
                return self._signatures.of(owner, method)
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
                return self._signatures.anywhere(method) or self._signatures.of(self._class_of(name), method)
            case ast.Attribute(attr=method):
                return self._signatures.anywhere(method)
        return False

    def _class_of(self, name: str) -> str:
        """The class of the object that goes by this name: known, or spelled the same."""
        bare = name.lstrip("_")
        spelled = "".join(word.capitalize() for word in bare.split("_"))
        return self._made.get(name) or NAMES.get(bare) or spelled


def findings_in(source: str, signatures: Signatures, path: str = "source") -> list[Finding]:
    return list(_dropped(statements_of(source), signatures, path))


def _dropped(statements: Sequence[Statement], signatures: Signatures, path: str) -> Iterator[Finding]:
    rule = _Rule(statements, signatures)
    for node, owner in statements:
        for called in _called(_dropped_value(node)):
            if rule.returns_effects(called, owner):
                yield Finding(path, node.lineno, f"{ast.unparse(called)}()")


def _dropped_value(node: ast.stmt) -> ast.expr | None:
    match node:
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name(id="_")], value=value):
            return value
    return None


def _called(dropped: ast.expr | None) -> Iterator[ast.expr]:
    """What is called for a value that nothing takes."""
    match dropped:
        case ast.Call(func=called):
            yield called
        case ast.Await(value=inner) | ast.NamedExpr(target=ast.Name(id="_"), value=inner):
            yield from _called(inner)
        case ast.BoolOp(values=values):
            yield from _called(values[-1])  # The others decide whether the last one is called.
        case ast.IfExp(body=body, orelse=orelse):
            yield from _called(body)
            yield from _called(orelse)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            for each in elements:
                yield from _called(each)
        case ast.ListComp(elt=element) | ast.SetComp(elt=element):
            yield from _called(element)


class Sources:
    """All modules below some folders, parsed once."""

    def __init__(self, *folders: Path) -> None:
        paths = [path for folder in folders or (SOURCES,) for path in sorted(folder.rglob("*.py"))]
        self._modules = {path: statements_of(path.read_text()) for path in paths}
        self.signatures = Signatures(self._modules.values())

    def findings(self) -> Iterator[Finding]:
        for path, statements in self._modules.items():
            yield from _dropped(statements, self.signatures, str(path.relative_to(ROOT)))


def main() -> int:
    found = list(Sources().findings())
    for each in found:
        sys.stderr.write(f"{each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
