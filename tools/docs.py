"""Keeps the documentation true: writes the generated pages and what is drawn from code inside of others, then
checks links and examples of all pages.

``./dev docs`` runs it; ``./dev docs --check`` writes nothing and fails where a generated page is out of date.
What is checked: relative links and their anchors, ``tidelog …`` and ``./dev …`` lines of console examples
(the command and its options exist), that Python and TOML examples parse, that the files and functions which
ARCHITECTURE.md and the decisions name exist, and that ARCHITECTURE.md lists every decision.
"""

import importlib.util
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.M)


class Problem(NamedTuple):
    page: Path
    sentence: str

    def __str__(self) -> str:
        return f"{self.page}: {self.sentence}"


def generated_pages() -> dict[str, Callable[[], str]]:
    """Path of each generated page and what writes it."""
    from tidelog.cli.document import document as command_line
    from tidelog.config.document import document as configuration

    return {"docs/cli.md": command_line, "docs/configuration.md": configuration}


def drawn_pages() -> dict[str, str]:
    """Path of each page with blocks that are drawn from code, and its text with all of them drawn anew."""
    blocks = _tool("mode_blocks")
    drawn = blocks.blocks()
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    return {
        str(page.relative_to(ROOT)): blocks.fill(text, drawn)
        for page, text in texts.items()
        if blocks.BEGIN in text
    }


def _tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])


def stale_pages() -> Iterator[Problem]:
    current = {name: text() for name, text in generated_pages().items()} | drawn_pages()
    for name, text in current.items():
        page = ROOT / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            yield Problem(Path(name), "is out of date; ./dev docs writes it anew")


def check_page(page: Path) -> Iterator[Problem]:
    """Everything wrong with one page."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT)
    prose = _FENCE.sub("", text)
    for target in _LINK.findall(prose):
        if (reason := _broken(page, target)) is not None:
            yield Problem(name, f"link {target} {reason}")
    for language, code in _FENCE.findall(text):
        for sentence in _EXAMPLES.get(language, _check_nothing)(code):
            yield Problem(name, sentence)


def check_map() -> Iterator[Problem]:
    """Whether ARCHITECTURE.md and the decisions fit the code and each other."""
    names = _tool("code_names")
    page = ROOT / "ARCHITECTURE.md"
    text = page.read_text(encoding="utf-8")
    decisions = sorted(ROOT.glob("docs/decisions/*.md"))
    for decision in decisions:
        if f"(docs/decisions/{decision.name})" not in text:
            yield Problem(page.relative_to(ROOT), f"does not list {decision.relative_to(ROOT)}")
    for each in (page, *decisions):
        for sentence in names.missing(each.read_text(encoding="utf-8"), ROOT):
            yield Problem(each.relative_to(ROOT), sentence)


def _broken(page: Path, target: str) -> str | None:
    if re.match(r"[a-z]+:", target):
        return None  # another site: whether it answers today says nothing about this commit
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "leads nowhere"
    if anchor and file.suffix == ".md" and anchor not in _anchors(file):
        return "names no heading of that page"
    return None


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _check_console(code: str) -> Iterator[str]:
    for line in code.replace("\\\n", " ").splitlines():
        if not line.startswith("$ "):
            continue
        for words in _commands(line[2:]):
            if words[0] == "tidelog":
                yield from _check_tidelog(words[1:])
            elif words[0] == "./dev":
                yield from _check_dev(words[1:])


def _commands(line: str) -> Iterator[list[str]]:
    """The commands of a shell line, without what redirects their input and output."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;<>"):
            if words:
                yield words
            words = [] if set(word) <= set("|&;") else ["<"]
        else:
            words.append(word)
    if words:
        yield words


@cache
def _command_line() -> Any:
    from tidelog.cli.app import command_line

    return command_line()


def _check_tidelog(words: list[str]) -> Iterator[str]:
    command = _command_line()
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if "--help" in rest:
        return
    works_alone = getattr(command, "invoke_without_command", False) and rest and rest[0].startswith("-")
    if hasattr(command, "commands") and rest and not works_alone:
        yield f"example `tidelog {shlex.join(words)}` names no command: {rest[0]}"
        return
    try:
        command.make_context("tidelog", rest)
    except Exception as error:  # whatever the parser raises is the finding
        yield f"example `tidelog {shlex.join(words)}` is refused: {getattr(error, 'message', error)}"


def _check_dev(words: list[str]) -> Iterator[str]:
    known = {"help", *re.findall(r"^ {8}([a-z]+)\) ", (ROOT / "dev").read_text(encoding="utf-8"), re.M)}
    if words and words[0] not in known:
        yield f"example `./dev {words[0]}` names no command of ./dev"


def _check_python(code: str) -> Iterator[str]:
    try:
        compile(code, "example", "exec")
    except SyntaxError as error:
        yield f"Python example does not parse: {error}"


def _check_toml(code: str) -> Iterator[str]:
    try:
        tomllib.loads(code)
    except tomllib.TOMLDecodeError as error:
        yield f"TOML example does not parse: {error}"


def _check_nothing(_code: str) -> Iterator[str]:
    return iter(())


_EXAMPLES: dict[str, Callable[[str], Iterator[str]]] = {
    "console": _check_console,
    "python": _check_python,
    "toml": _check_toml,
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: ./dev docs [--check]\n")
        return 2
    problems: list[Problem] = []
    if arguments:
        problems += stale_pages()
    else:
        for name, text in generated_pages().items():
            (ROOT / name).write_text(text(), encoding="utf-8")
        for name, drawn in drawn_pages().items():
            (ROOT / name).write_text(drawn, encoding="utf-8")
    for page in pages():
        problems += check_page(page)
    problems += check_map()
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.stderr.write(f"docs: {len(pages())} pages, {len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
