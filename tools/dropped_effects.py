"""Effects are carried out, not dropped: the result of a function that returns effects is used. ``./dev lint``
runs this over the sources.

A call that stands alone as a statement is a finding if what it calls returns effects by its signature:

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
from collections.abc import Iterator, Sequence
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


class Signatures:
    """Which methods return effects, of all classes of the sources."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.effectful: dict[str, set[str]] = defaultdict(set)  # class → its methods that return effects
        self._bases: dict[str, list[str]] = {}
        self._names: set[str] = set()
        plain: set[str] = set()
        for tree in trees:
            for node in ast.walk(tree):
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


def made_in(tree: ast.Module) -> dict[str, str]:
    """The classes of fields that are made in this module: ``self.name = Class(...)`` or ``Class.of(...)``."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
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


class _Visitor(ast.NodeVisitor):
    def __init__(
        self, path: str, signatures: Signatures, functions: frozenset[str], made: dict[str, str]
    ) -> None:
        self._path = path
        self._signatures = signatures
        self._made = made
        self._functions = functions
        self._classes: list[str] = []
        self.findings: list[Finding] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._classes.append(node.name)
        self.generic_visit(node)
        self._classes.pop()

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self._returns_effects(node.value.func):
            self.findings.append(Finding(self._path, node.lineno, f"{ast.unparse(node.value.func)}()"))
        self.generic_visit(node)

    def _returns_effects(self, called: ast.expr) -> bool:
        match called:
            case ast.Name(id=name):
                return name in self._functions
            case ast.Attribute(value=ast.Name(id="self"), attr=method) if self._classes:
                return self._signatures.of(self._classes[-1], method)
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
    tree = ast.parse(source)
    functions = frozenset(
        each.name for each in ast.walk(tree) if isinstance(each, Function) and returns_effects(each)
    )
    methods = {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, Function)
    }
    visitor = _Visitor(path, signatures, functions - methods, made_in(tree))
    visitor.visit(tree)
    return visitor.findings


def signatures_of(root: Path = SOURCES) -> Signatures:
    return Signatures([ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))])


def findings(root: Path = SOURCES) -> Iterator[Finding]:
    signatures = signatures_of(root)
    for path in sorted(root.rglob("*.py")):
        yield from findings_in(path.read_text(), signatures, str(path.relative_to(ROOT)))


def main() -> int:
    found = list(findings())
    for each in found:
        sys.stderr.write(f"{each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
