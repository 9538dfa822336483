"""Prints the figures of the structure that docs/decisions/0054 compares, of this checkout or of another one:

    python tools/structure.py [CHECKOUT]

All of them are counted in the syntax trees of the core packages; nothing is imported from the checkout.
"""

import ast
import importlib.util
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CORE = ("log", "replication", "controller", "groups", "transactions", "broker")
SHARED_EFFECTS = "shard_effects.py"  # of groups and transactions, beside the packages
LARGEST = 6  # classes that are listed
LONG_FILE = 400  # lines
COPIED_LINES = 3  # A function body of so many lines that is there twice is a duplicate.
FOLDERS = 3  # that are listed
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _tool(name: str) -> Any:
    """The module of another tool: this directory is no package."""
    spec = importlib.util.spec_from_file_location(f"tidelog_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mode_seam, one_mutator = _tool("mode_seam"), _tool("one_mutator")


class ClassSize(NamedTuple):
    methods: int
    fields: int
    name: str

    def __str__(self) -> str:
        return f"`{self.name}` ({self.methods}, {self.fields})"


class Sources:
    """The parsed files of a checkout, by their path below ``src/tidelog``."""

    def __init__(self, checkout: Path) -> None:
        self.root = checkout / "src" / "tidelog"
        map_page = checkout / "ARCHITECTURE.md"
        self.map_text = map_page.read_text(encoding="utf-8") if map_page.is_file() else ""
        self.texts = {
            path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
            for package in CORE
            for path in sorted((self.root / package).rglob("*.py"))
        }

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        return {path: ast.parse(text) for path, text in self.texts.items()}

    def nodes(self, *packages: str) -> Iterator[tuple[str, ast.AST]]:
        for path, tree in self.trees.items():
            if not packages or path.startswith(tuple(f"{package}/" for package in packages)):
                yield from ((path, node) for node in ast.walk(tree))


# --- figures ------------------------------------------------------------------------------------------------


def class_sizes(sources: Sources) -> list[ClassSize]:
    """Largest first. Inherited methods and fields do not count; properties count as methods."""
    found = [_size(node) for _, node in sources.nodes() if isinstance(node, ast.ClassDef)]
    return sorted(found, reverse=True)


def _size(node: ast.ClassDef) -> ClassSize:
    methods = [each for each in node.body if isinstance(each, Function)]
    fields = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    }
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()):
                fields.add(attr)
    return ClassSize(len(methods), len(fields), node.name)


def files_per_folder(sources: Sources, package: str) -> Counter[str]:
    """Python files by folder, without ``__init__.py``."""
    return Counter(
        path.rpartition("/")[0]
        for path in sources.texts
        if path.startswith(f"{package}/") and not path.endswith("__init__.py")
    )


def long_files(sources: Sources) -> dict[str, int]:
    lines = {path: text.count("\n") for path, text in sources.texts.items()}
    return {path: count for path, count in lines.items() if count > LONG_FILE}


def writes_from_outside(sources: Sources) -> int:
    return sum(1 for _ in one_mutator.check(sources.root))


def mode_tests(sources: Sources) -> int:
    """Without the exceptions that are listed in the rule."""
    findings = (mode_seam.findings_in(text, path) for path, text in sources.texts.items())
    core = [each for found in findings for each in found if each.path.startswith(mode_seam.PACKAGES)]
    return sum((each.path, each.function) not in mode_seam.EXCEPTIONS for each in core)


def messages_with_callbacks(sources: Sources) -> list[str]:
    """Named tuples and structs of the state machines that hold a callable. Ports, and the rules of a mode
    (rows of a table), hold nothing else.
    """
    nodes = [node for _, node in sources.nodes("replication", "controller", "groups", "transactions")]
    shared = sources.root / SHARED_EFFECTS
    if shared.is_file():
        nodes += ast.walk(ast.parse(shared.read_text(encoding="utf-8")))
    return sorted(
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and node.bases
        and ast.unparse(node.bases[0]).endswith(("NamedTuple", "Struct"))
        and not node.name.endswith(("Ports", "Succession", "Step", "Mode"))
        and any(isinstance(each, ast.AnnAssign) and _is_callable(each.annotation) for each in node.body)
    )


def _is_callable(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _is_callable(ast.parse(annotation.value, mode="eval").body)  # quoted
    names = {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}
    return bool(names & {"Callable", "Done", "Then", "Decide"})


def fields_of_others(sources: Sources) -> int:
    """Places that assign an attribute of another object than ``self``."""
    return sum(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for _, node in sources.nodes("replication", "controller", "broker")
    )


def lambda_fields(sources: Sources) -> int:
    """Fields that hold a ``lambda`` when their object is made."""
    return sum(
        isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Lambda)
        and isinstance(node.target if isinstance(node, ast.AnnAssign) else node.targets[0], ast.Attribute)
        for _, node in sources.nodes("replication", "controller", "broker")
    )


def inner_imports(sources: Sources) -> int:
    """Imports of our own modules within functions."""
    return sum(
        isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith("tidelog")
        for _, node in sources.nodes()
        if isinstance(node, Function)
        for inner in ast.walk(node)
    )


def repeated_class_names(sources: Sources) -> list[str]:
    """Public names of classes that several modules define."""
    where: defaultdict[str, set[str]] = defaultdict(set)
    for path, node in sources.nodes():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            where[node.name].add(path)
    return sorted(name for name, paths in where.items() if len(paths) > 1)


def duplicate_functions(sources: Sources) -> list[str]:
    """Functions whose bodies are the same but for variables and constants: one name of each group."""
    bodies: defaultdict[str, list[str]] = defaultdict(list)
    for _, node in sources.nodes():
        if isinstance(node, Function):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= COPIED_LINES:
                shape = "\n".join(ast.dump(each) for each in body)
                bodies[re.sub(r"(?<=id=)'\w+'|(?<=Constant\(value=)[^)]*", "", shape)].append(node.name)
    return sorted(names[0] for names in bodies.values() if len(names) > 1)


class Walk(NamedTuple):
    title: str
    functions: int
    files: int


def walks(text: str) -> list[Walk]:
    """The walks of the map: what each of them names. A name without a file is in the file before it."""
    _, _, section = text.partition("## Four walks through the code")
    section = re.split(r"^## ", section, maxsplit=1, flags=re.M)[0]
    found = []
    for part in re.split(r"^### ", section, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        files = set(re.findall(r"`([\w/]+\.py)", body))
        named = re.findall(r"`[\w/]+\.py: ([\w.]+)`|`([A-Z]\w+\.\w+)`", body)
        found.append(Walk(title, len({first or second for first, second in named}), len(files)))
    return found


# --- the table ----------------------------------------------------------------------------------------------


def _largest_folders(sources: Sources) -> str:
    folders = files_per_folder(sources, "broker")
    others = Counter({path: count for path, count in folders.items() if path != "broker"})
    largest = ", ".join(f"{count} in `{path}/`" for path, count in others.most_common(FOLDERS))
    return f"{folders['broker']} in `broker/` itself; {largest}"


def _per_package(sources: Sources) -> str:
    return ", ".join(f"`{package}` {files_per_folder(sources, package).total()}" for package in CORE)


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)}" + (f" ({', '.join(f'`{name}`' for name in names)})" if 0 < len(names) < 4 else "")


FIGURES: Mapping[str, Callable[[Sources], object]] = {
    "largest classes (methods, fields)": lambda of: ", ".join(map(str, class_sizes(of)[:LARGEST])),
    "writes to state machines from outside, calls of their private methods": writes_from_outside,
    "tests of the mode outside of the seam": mode_tests,
    "messages and effects that hold a callable": lambda of: _listed(messages_with_callbacks(of)),
    "assignments to attributes of other objects": fields_of_others,
    "fields that hold a `lambda` at first": lambda_fields,
    "imports within functions": inner_imports,
    "files per package": _per_package,
    "files in `broker/`": _largest_folders,
    f"files above {LONG_FILE} lines": lambda of: len(long_files(of)),
    "class names that several modules define": lambda of: _listed(repeated_class_names(of)),
    f"functions of at least {COPIED_LINES} lines that are there twice": lambda of: _listed(
        duplicate_functions(of)
    ),
}


def table(sources: Sources) -> Iterator[tuple[str, str]]:
    for name, figure in FIGURES.items():
        yield name, str(figure(sources))
    for walk in walks(sources.map_text):
        yield f"walk: {walk.title} (functions, files)", f"{walk.functions}, {walk.files}"


def main() -> int:
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    sys.stdout.writelines(f"| {name} | {value} |\n" for name, value in table(Sources(checkout)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
