"""Nothing asks which mode a topic has but the seam: the policies, the successions, and the table that says
what is attached to the replicas of a mode. ``./dev lint`` runs this over the core packages.

============================== ===============================================================================
outside of the seam            instead
============================== ===============================================================================
the name of a mode             a row of :mod:`tidelog.replication.modes` or of ``successions.BY_MODE``
a mode compared with anything  the same; two modes may be compared: that asks whether one has changed
but another mode
a row's flag, or which policy  a method of the policy, of the succession or of an attachment, which each mode
or attachment there is         answers in its own way
``election is None``, and so   the null object in that slot (:mod:`tidelog.replication.attachments`)
on for every slot
============================== ===============================================================================

Not covered: ``config``, ``cli`` and ``lab`` speak of modes to users (settings, promises, help texts), and
``sim`` checks what each mode promises, so they name them; ``runtime`` and everything below have no business
with modes and import none of this.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
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
"""(file, function) → why it may."""

CONSTANTS = frozenset({"ISR", "PRIMARY_BACKUP", "QUORUM"})
SPECIAL = frozenset({"DEFAULT", "INTERNAL"})  # Modes by what they are for: fine, but not to compare with.
WORDS = frozenset({"isr", "primary-backup", "quorum"})
MODE_NAMES = frozenset({"mode", "replication_mode", "default_replication_mode"})
FLAGS = frozenset({"leaders", "Leaders"})
POLICIES = frozenset({"IsrPolicy", "PrimaryBackupPolicy", "QuorumPolicy"})
SLOTS = frozenset({"voter", "voters", "restorer", "seal", "snapshots", "stand_in", "successors", "deletions"})
KINDS = frozenset(
    {
        "Appointed", "Elected", "Restoring", "Pausing", "Sealing", "Snapshots", "Backup", "AnyVoter",
        "Successors", "LoggedDeletions", "NoVoters", "NoRestorer", "NoSeal", "NoSnapshots", "NoStandIn",
        "NoSuccessors", "Deletions", *POLICIES,
    }
)  # fmt: skip
ELECTIONS = frozenset({"election", "_election"})


class Finding(NamedTuple):
    path: str
    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class _Visitor(ast.NodeVisitor):
    def __init__(self, path: str) -> None:
        self._path = path
        self._scopes: list[str] = []
        self._may_ask_attachments = path.startswith(ATTACHMENTS)
        self.findings: list[Finding] = []

    def _found(self, node: ast.AST, text: str) -> None:
        line = getattr(node, "lineno", 0)
        self.findings.append(Finding(self._path, ".".join(self._scopes), line, text))

    # --- scopes ---------------------------------------------------------------------------------------------

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scopes.append(node.name)
        self.generic_visit(node)
        self._scopes.pop()

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
        elif node.attr in FLAGS and _is_row(node.value):
            self._found(node, f"{ast.unparse(node)} is a mode's flag: let an object of the row answer")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if node.value in WORDS:
            self._found(node, f"{node.value!r} names a mode")

    # --- questions ------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        special = any(_named(side) in SPECIAL for side in sides)
        if special or (any(map(_is_mode, sides)) and not all(map(_is_mode, sides))):
            self._found(node, f"{ast.unparse(node)} asks for a mode")
        if any(_named(side) == "policy" for side in sides):
            self._found(node, f"{ast.unparse(node)} asks which policy it is")
        if any(_is_none(side) for side in sides) and not self._may_ask_attachments:
            for side in sides:
                self._check_slot(node, side)
        self.generic_visit(node)

    def _check_slot(self, node: ast.expr, side: ast.expr) -> None:
        is_slot = isinstance(side, ast.Attribute) and side.attr in SLOTS
        if is_slot or _named(side) in ELECTIONS:
            self._found(node, f"{ast.unparse(node)}: what a mode lacks is a null object")

    def visit_Match(self, node: ast.Match) -> None:
        if _is_mode(node.subject):
            self._found(node, f"match {ast.unparse(node.subject)} asks for a mode")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type", "issubclass"):
            told = {name for each in node.args[1:] for name in _names_in(each)} & KINDS
            if told and not self._may_ask_attachments:
                self._found(node, f"{ast.unparse(node)} asks which attachment or policy there is")
        self.generic_visit(node)


def _named(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=attr):
            return attr
    return ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_mode(node: ast.expr) -> bool:
    """A mode, whichever it is."""
    match node:
        case ast.Call(func=ast.Name(id="mode_of")):
            return True
        case ast.Attribute(attr=attr):
            return attr in MODE_NAMES
    return False


def _is_row(node: ast.expr) -> bool:
    """A row of the table: ``MODES[mode]``, or a name for one."""
    match node:
        case ast.Subscript(value=table):
            return _named(table) == "MODES"
    return _named(node) in ("mode", "_mode", "row", "METADATA")


def _names_in(node: ast.expr) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def findings_in(source: str, path: str) -> list[Finding]:
    if path.startswith(SEAM):
        return []
    visitor = _Visitor(path)
    visitor.visit(ast.parse(source))
    return visitor.findings


def check(root: Path, packages: Sequence[str] = PACKAGES) -> Iterator[Finding]:
    """Also an exception that nothing needs any more is one too many."""
    needed = set()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for each in findings_in(path.read_text(), path.relative_to(root).as_posix()):
                if (each.path, each.function) in EXCEPTIONS:
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
