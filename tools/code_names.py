"""Finds the files and names of the code that a page mentions, and says which of them do not exist.

A page names a file by its path below ``src/tidelog`` (`` `log/log.py` ``) or below the checkout, and what is
in it as `` `log/log.py: Log.append` ``. A name is found where the file defines or assigns it. A member
without a file (`` `Log.append` ``) is found in a class of that name, or in one that it inherits from.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_MENTION = re.compile(r"`([\w./-]+/[\w.-]*)(?:: ([\w.]+))?`")
_MEMBER = re.compile(r"`([A-Z]\w*[a-z]\w*)\.(\w+)`")
_FILE = re.compile(r"^[\w./-]+\.(?:py|md|txt|toml)$")


def missing(text: str, root: Path) -> Iterator[str]:
    """What is wrong with each mention of a file, of a name in it, or of a member of a class."""
    for path, name in _MENTION.findall(text):
        if not _FILE.match(path):
            continue
        file = _find(path, root)
        if file is None:
            yield f"`{path}` is no file of the project"
        elif name and not _defines(file, name):
            yield f"`{path}` defines no {name}"
    mentions = _MEMBER.findall(text)
    classes = _classes(root) if mentions else {}
    for owner, member in mentions:
        if owner not in classes:
            yield f"`{owner}.{member}`: there is no class {owner}"
        elif not _has(classes, owner, member):
            yield f"`{owner}.{member}`: {owner} has no {member}"


@cache
def _classes(root: Path) -> dict[str, list[ast.ClassDef]]:
    """The classes of the sources by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for file in (root / "src" / "tidelog").rglob("*.py"):
        for node in _class_definitions(ast.parse(file.read_text(encoding="utf-8"))):
            found.setdefault(node.name, []).append(node)
    return found


def _class_definitions(node: ast.AST) -> Iterator[ast.ClassDef]:
    """All classes below a node. No class is defined within an expression, so none is looked at."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _class_definitions(child)


def _has(classes: dict[str, list[ast.ClassDef]], owner: str, member: str) -> bool:
    return any(
        member in _members(node)
        or any(_has(classes, base.id, member) for base in node.bases if isinstance(base, ast.Name))
        for node in classes.get(owner, ())
    )


def _members(node: ast.ClassDef) -> set[str]:
    """Methods, class attributes, slots and attributes that methods assign."""
    names: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.Constant(value=str() as name):  # __slots__
                names.add(name)
    return names


def _find(path: str, root: Path) -> Path | None:
    candidates = (root / "src" / "tidelog" / path, root / path)
    return next((each for each in candidates if each.is_file()), None)


def _defines(file: Path, name: str) -> bool:
    text = file.read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(?:class |def |async def )?{part}\b", text, re.M) for part in name.split("."))
