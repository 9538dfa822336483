"""Finds the files and names of the code that a page mentions, and says which of them do not exist.

A page names a file by its path below ``src/tidelog`` (`` `log/log.py` ``) or below the checkout, and what is
in it as `` `log/log.py: Log.append` ``. A name is found where the file defines or assigns it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_MENTION = re.compile(r"`([\w./-]+/[\w.-]*)(?:: ([\w.]+))?`")
_FILE = re.compile(r"^[\w./-]+\.(?:py|md|txt|toml)$")


def missing(text: str, root: Path) -> Iterator[str]:
    """What is wrong with each mention of a file, or of a name in it."""
    for path, name in _MENTION.findall(text):
        if not _FILE.match(path):
            continue
        file = _find(path, root)
        if file is None:
            yield f"`{path}` is no file of the project"
        elif name and not _defines(file, name):
            yield f"`{path}` defines no {name}"


def _find(path: str, root: Path) -> Path | None:
    candidates = (root / "src" / "tidelog" / path, root / path)
    return next((each for each in candidates if each.is_file()), None)


def _defines(file: Path, name: str) -> bool:
    text = file.read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(?:class |def |async def )?{part}\b", text, re.M) for part in name.split("."))
