"""Nothing asks which mode a topic has but the seam: the policies, the successions, and the table that says
what is attached to the replicas of a mode. ``./dev lint`` runs this over the core packages.

============================== ===============================================================================
outside of the seam            instead
============================== ===============================================================================
the name of a mode             a row of :mod:`tidelog.replication.modes` or of ``successions.BY_MODE``
a mode compared with anything  the same; two modes may be compared: that asks whether one has changed
but another mode, or its text
looked at (``startswith``)
a row's flag, or which policy  a method of the policy, of the succession or of an attachment, which each mode
or attachment there is         answers in its own way
(by ``isinstance``, ``type``,
``hasattr`` or a pattern)
``election is None``, and so   the null object in that slot (:mod:`tidelog.replication.attachments`)
on for every slot, also by its
truth, a pattern, a local name
or ``getattr``
``Elected | None``, and so on  the same: an object that only some modes use is never missing. Nor is it looked
for every attachment, policy   up with ``get`` in a table of those that there are; ``driver.voter`` is there
and election                   for every replica
============================== ===============================================================================

Not covered: ``config``, ``cli`` and ``lab`` speak of modes to users (settings, promises, help texts), and
``sim`` checks what each mode promises, so they name them; ``runtime`` and everything below have no business
with modes and import none of this. A mode, a row of the table and a slot of a driver are also recognised by a
local name (``now = partition.mode``), but not where a function returns them or a container holds them.

Which modes, policies, attachments and slots there are is read from the sources.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "src" / "tidelog"
PACKAGES = ("replication", "controller", "broker")
SEAM = ("replication/policies/", "controller/successions/", "replication/modes.py")
ATTACHMENTS = ("replication/attachments/",)

EXCEPTIONS = {
    (
        "controller/topics.py",
        "_with_mode",
    ): "internal topics have one mode, and a default is not written down",
    (
        "controller/topics.py",
        "check_mode_of_internal",
    ): "internal topics have one mode, whatever is asked for",
    (
        "broker/partitions/table.py",
        "PartitionTable.__init__",
    ): "names the ways of assigning, one per row kind",
    ("broker/partitions/table.py", "PartitionTable._assigner"): "looks the way of assigning up in the row",
}
"""(file, function) → why it may name modes or their flags. Nothing may ask whether an object is missing."""

MISSING = "what a mode lacks is a null object"


def _named(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=attr):
            return attr
    return ""


def _classes(folder: Path) -> dict[str, ast.ClassDef]:
    trees = (ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py")))
    return {each.name: each for tree in trees for each in tree.body if isinstance(each, ast.ClassDef)}


def _assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Name → what it is given, of the assignments in a module or class."""
    found = {}
    for each in body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


def _subclasses(classes: Mapping[str, ast.ClassDef], base: str) -> set[str]:
    direct = {name for name, each in classes.items() if base in map(_named, each.bases)}
    return direct.union(*(_subclasses(classes, name) for name in direct))


SETTINGS = _assigned(ast.parse((CORE / "config" / "modes.py").read_text()).body)
CONSTANTS = frozenset(
    name
    for name, value in SETTINGS.items()
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and not name.startswith("_")
)
WORDS = frozenset(ast.literal_eval(SETTINGS[name]) for name in CONSTANTS)
# Modes by what they are for: fine, but not to compare with.
SPECIAL = frozenset(name for name, value in SETTINGS.items() if _named(value) in CONSTANTS)
CLASSES = _classes(CORE / "replication") | _classes(CORE / "broker")
POLICIES = frozenset(
    name
    for name in _classes(CORE / "replication" / "policies")
    if name.endswith("Policy") and name != "Policy"
)
ATTACHED = frozenset(_subclasses(CLASSES, "Attachment"))
KINDS = ATTACHED | POLICIES
SLOTS = frozenset(
    value.value
    for name in ATTACHED
    if isinstance(value := _assigned(CLASSES[name].body).get("slot"), ast.Constant)
)
MODE_NAMES = frozenset({"mode", "replication_mode", "default_replication_mode"})
FLAGS = frozenset({"leaders", "Leaders"})
ELECTIONS = frozenset({"election", "_election", "quorum", "_quorum"})
OBJECTS = KINDS | {"Election", "Voting", "QuorumPartitions"}  # what only some modes use
COMPARISONS = frozenset({"eq", "ne", "is_", "is_not", "contains", "hash", "len", "ord"})  # by a function


class Finding(NamedTuple):
    path: str
    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class _Visitor(ast.NodeVisitor):
    def __init__(self, path: str, tables: frozenset[str]) -> None:
        self._path = path
        self._tables = tables
        self._scopes: list[str] = []
        self._modes: list[set[str]] = [set()]  # Local names of modes, by scope.
        self._rows: list[set[str]] = [set()]  # Of rows of the table.
        self._slots: list[set[str]] = [set()]  # Of what is in the slots of a driver.
        self._may_ask_attachments = path.startswith(ATTACHMENTS)
        self.findings: list[Finding] = []

    def _found(self, node: ast.AST, text: str) -> None:
        line = getattr(node, "lineno", 0)
        self.findings.append(Finding(self._path, ".".join(self._scopes), line, text))

    # --- scopes ---------------------------------------------------------------------------------------------

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scopes.append(node.name)
        for names in (self._modes, self._rows, self._slots):
            names.append(set())
        if not isinstance(node, ast.ClassDef):
            self._arguments(node.args)
        self.generic_visit(node)
        for names in (self._modes, self._rows, self._slots):
            names.pop()
        self._scopes.pop()

    def _arguments(self, arguments: ast.arguments) -> None:
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            text = each.annotation is not None and ast.unparse(each.annotation) in ("str", "str | None")
            if text and each.arg in MODE_NAMES:
                self._modes[-1].add(each.arg)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._name(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._name(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._name(node.target, node.value)
        self.generic_visit(node)

    def _name(self, target: ast.expr, value: ast.expr) -> None:
        """A local name for a mode, a row or what is in a slot, or no longer one."""
        match target, value:
            case ast.Name(id=name), _:
                (set.add if self._is_mode(value) else set.discard)(self._modes[-1], name)
                (set.add if self._is_row(value) else set.discard)(self._rows[-1], name)
                (set.add if self._is_in_slot(value) else set.discard)(self._slots[-1], name)
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for each, of in zip(targets, values, strict=False):
                    self._name(each, of)

    def _is_mode(self, node: ast.expr) -> bool:
        """A mode, whichever it is."""
        match node:
            case ast.Name(id=name):
                return any(name in names for names in self._modes)
            case ast.NamedExpr(value=value):
                return self._is_mode(value)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]):
                return name in MODE_NAMES
            case ast.Call(func=function):
                return _named(function) == "mode_of"
            case ast.Attribute(attr=attr):
                return attr in MODE_NAMES
        return False

    def _is_row(self, node: ast.expr) -> bool:
        """A row of the table: ``MODES[mode]``, or a name for one."""
        match node:
            case ast.Subscript(value=table):
                return _named(table) == "MODES"
            case ast.Name(id=name) if any(name in names for names in self._rows):
                return True
        return _named(node) in ("mode", "_mode", "row", "METADATA")

    def _is_in_slot(self, node: ast.expr) -> bool:
        """What a driver has in a slot, or a local name for it."""
        match node:
            case ast.Name(id=name):
                return any(name in names for names in self._slots)
            case ast.NamedExpr(value=value):
                return self._is_in_slot(value)
            case ast.Attribute(value=owner, attr=attr):
                return attr in SLOTS and _named(owner).endswith("driver")
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]):
                return name in SLOTS
        return False

    visit_ClassDef = _enter  # noqa: N815 - the names that ast asks for
    visit_FunctionDef = _enter  # noqa: N815
    visit_AsyncFunctionDef = _enter  # noqa: N815

    # --- names ----------------------------------------------------------------------------------------------

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            if each.name in CONSTANTS | POLICIES:
                self._found(node, f"{each.name} is imported: only the seam knows modes by name")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in CONSTANTS:
            self._found(node, f"{node.id} names a mode")
        elif node.id in FLAGS and not isinstance(node.ctx, ast.Store):
            self._found(node, f"{node.id} tells modes apart")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in CONSTANTS:
            self._found(node, f"{ast.unparse(node)} names a mode")
        elif node.attr in FLAGS and self._is_row(node.value):
            self._found(node, f"{ast.unparse(node)} is a mode's flag: let an object of the row answer")
        elif node.attr == "__class__" and self._has_kinds(node.value):
            self._found_kind(node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if node.value in WORDS:
            self._found(node, f"{node.value!r} names a mode")

    # --- questions ------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        special = any(_named(side) in SPECIAL for side in sides)
        modes = [self._is_mode(side) for side in sides]
        if special or (any(modes) and not all(modes)):
            self._found(node, f"{ast.unparse(node)} asks for a mode")
        if any(_named(side) == "policy" for side in sides):
            self._found(node, f"{ast.unparse(node)} asks which policy it is")
        if any(name in KINDS for side in sides for name in _names_in(side)):
            self._found_kind(node)
        if any(_is_none(side) for side in sides) and not self._may_ask_attachments:
            for side in sides:
                self._check_slot(node, side)
        self.generic_visit(node)

    def _check_slot(self, node: ast.expr, side: ast.expr) -> None:
        if isinstance(side, ast.NamedExpr):
            side = side.value
        is_slot = isinstance(side, ast.Attribute) and side.attr in SLOTS
        if is_slot or self._is_in_slot(side) or _named(side) in ELECTIONS:
            self._found_missing(node)

    def _check_truth(self, node: ast.expr, side: ast.expr) -> None:
        # Others than drivers may have a list of that name.
        if self._is_in_slot(side) or _named(side) in ELECTIONS:
            self._check_slot(node, side)

    def _has_kinds(self, node: ast.expr) -> bool:
        """Something of which each mode has its own class."""
        return _named(node) == "policy" or self._is_in_slot(node)

    def _found_missing(self, node: ast.expr) -> None:
        if not self._may_ask_attachments:
            self._found(node, f"{ast.unparse(node)}: {MISSING}")

    def visit_If(self, node: ast.If) -> None:
        self._check_truth(node.test, node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._check_truth(node.test, node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._check_truth(node.test, node.test)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self._check_truth(node.test, node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for each in node.ifs:
            self._check_truth(each, each)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for each in node.values:
            self._check_truth(node, each)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._check_truth(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """``Elected | None`` in an annotation."""
        sides = (node.left, node.right)
        if isinstance(node.op, ast.BitOr) and any(map(_is_none, sides)) and any(map(_is_object, sides)):
            self._found_missing(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _named(node.value) == "Optional" and _is_object(node.slice):
            self._found_missing(node)
        elif isinstance(node.slice, ast.Tuple) and _named(node.value) == "Union":
            if any(map(_is_none, node.slice.elts)) and any(map(_is_object, node.slice.elts)):
                self._found_missing(node)
        elif self._is_mode(node.value):
            self._found(node, f"{ast.unparse(node)} looks at the text of a mode")
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        if self._is_mode(node.subject):
            self._found(node, f"match {ast.unparse(node.subject)} asks for a mode")
        if any(isinstance(each.pattern, ast.MatchSingleton) for each in node.cases):
            self._check_slot(node.subject, node.subject)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if _named(node.cls) in KINDS:
            self._found_kind(node)
        self.generic_visit(node)

    def _found_kind(self, node: ast.AST) -> None:
        if not self._may_ask_attachments:
            self._found(node, f"{ast.unparse(node)} asks which attachment or policy there is")

    def visit_Call(self, node: ast.Call) -> None:
        named = {name for each in node.args[1:] for name in _names_in(each)}
        if _named(node.func) in ("isinstance", "issubclass") and named & KINDS:
            self._found_kind(node)
        self._check_arguments(node)
        match node:
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_, *default]):
                if _named(table) in self._tables and all(map(_is_none, default)):
                    self._found_missing(node)
        self.generic_visit(node)

    def _check_arguments(self, node: ast.Call) -> None:
        """Questions that are asked by calling something."""
        name = _named(node.func)
        if name in COMPARISONS and any(map(self._is_mode, node.args)):
            self._found(node, f"{ast.unparse(node)} asks for a mode")
        elif isinstance(node.func, ast.Attribute) and self._is_mode(node.func.value):
            self._found(node, f"{ast.unparse(node)} looks at the text of a mode")
        elif name in ("type", "hasattr", "getattr") and node.args and self._has_kinds(node.args[0]):
            self._found_kind(node)
        elif name == "bool" and node.args:
            self._check_truth(node, node.args[0])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_object(node: ast.expr) -> bool:
    """The class of what only some modes use, also as a string."""
    if isinstance(node, ast.Constant):
        return node.value in OBJECTS
    return _named(node) in OBJECTS


def _tables(tree: ast.Module) -> frozenset[str]:
    """Names of fields and arguments that are declared as mappings to such objects."""
    found = set()
    for each in ast.walk(tree):
        match each:
            case ast.AnnAssign(target=target, annotation=ast.Subscript(slice=ast.Tuple(elts=[_, value]))):
                if _is_object(value):
                    found.add(_named(target))
            case ast.arg(arg=name, annotation=ast.Subscript(slice=ast.Tuple(elts=[_, value]))):
                if _is_object(value):
                    found |= {name, f"_{name}"}
    return frozenset(found)


def _names_in(node: ast.expr) -> Iterator[str]:
    return (_named(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))


def findings_in(source: str, path: str) -> list[Finding]:
    if path.startswith(SEAM):
        return []
    tree = ast.parse(source)
    visitor = _Visitor(path, _tables(tree))
    visitor.visit(tree)
    return visitor.findings


def check(root: Path, packages: Sequence[str] = PACKAGES) -> Iterator[Finding]:
    """Also an exception that nothing needs any more is one too many."""
    needed = set()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for each in findings_in(path.read_text(), path.relative_to(root).as_posix()):
                if (each.path, each.function) in EXCEPTIONS and not each.text.endswith(MISSING):
                    needed.add((each.path, each.function))
                else:
                    yield each
    for path_name, function in sorted(EXCEPTIONS.keys() - needed):
        yield Finding(path_name, function, 1, f"{function} needs its exception no more")


def main() -> int:
    findings = list(check(ROOT / "src" / "tidelog"))
    for each in findings:
        sys.stderr.write(f"{each}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
