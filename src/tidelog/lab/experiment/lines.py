"""Where in a TOML text a key or table is, so that a mistake can be named with its line.

Owns a scan of headers and keys. Values are the parser's business: this only has to find the line of what
:mod:`tomllib` has accepted.
"""

import re

Place = tuple[str | int, ...]
"""Keys and numbers of array elements: ``("topics", 1, "replicas")`` is a key of the second ``[[topics]]``."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_FENCES = ('"' * 3, "'" * 3)


class Lines:
    """Lines count from 1."""

    def __init__(self, text: str) -> None:
        self._found: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}
        self._table: Place = ()
        fence = ""
        for number, line in enumerate(text.splitlines(), start=1):
            if not fence:
                self._scan(line, number)
            fence = _fence_after(line, fence)

    def of(self, place: Place) -> int:
        """The line of this place, or of the nearest table around it."""
        while place and place not in self._found:
            place = place[:-1]
        return self._found.get(place, 1)

    def _scan(self, line: str, number: int) -> None:
        if header := _HEADER.match(line):
            names = self._inside(_parts(header[2]))
            if header[1] == "[[":
                count = self._counts.get(names, 0)
                self._counts[names] = count + 1
                self._found.setdefault(names, number)
                names = (*names, count)
            self._table = names
            self._found.setdefault(names, number)
        elif key := _KEY.match(line):
            parts = _parts(key[1])
            for length in range(1, len(parts) + 1):
                self._found.setdefault((*self._table, *parts[:length]), number)
            # A setting's name has dots. Whether it was quoted or not, it is found under its whole name.
            self._found.setdefault((*self._table, parts[0], ".".join(parts[1:])), number)
            self._found.setdefault((*self._table, ".".join(parts)), number)

    def _inside(self, parts: tuple[str, ...]) -> Place:
        """``[topics.settings]`` belongs to the newest element of ``[[topics]]``."""
        place: Place = ()
        for position, part in enumerate(parts):
            place = (*place, part)
            if position < len(parts) - 1 and place in self._counts:
                place = (*place, self._counts[place] - 1)
        return place


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _fence_after(line: str, fence: str) -> str:
    """The quotes of a text of several lines that is open after this line."""
    for quotes in _FENCES:
        if (fence in ("", quotes)) and line.count(quotes) % 2:
            return "" if fence else quotes
    return fence
