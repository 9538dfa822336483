"""Files of settings as Java writes them (``java.util.Properties``), such as a Kafka client's
``client.properties``. Knows no setting. Errors name a line and never show it: it may have a password.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
# The name ends at the first separator that is not escaped; one = or : may stand among blanks.
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])+)\s*(?:[=:]\s*)?(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Name → value; the last one of a name wins. ValueError names the line that is not understood."""
    found = {}
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise ValueError(f"line {number} is not of the form name=value")
        found[_plain(pair[1])] = _plain(pair[2])
    return found


def write_properties(values: dict[str, str]) -> str:
    """What :func:`parse_properties` reads again."""
    return "".join(f"{_escaped(name, ' =:#!')}={_escaped(value, '')}\n" for name, value in values.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that end with a backslash go on in the next one. With the number of the first line."""
    begun, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = raw.lstrip(" \t\f")
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun += line[:-1]
            continue
        yield first, begun + line
        begun = ""
    if begun:
        yield first, begun


def _plain(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return _ESCAPED.sub(one, text)


def _escaped(text: str, special: str) -> str:
    names = {value: name for name, value in _ESCAPES.items()}
    shown = "".join(
        f"\\{names[each]}" if each in names else f"\\{each}" if each == "\\" or each in special else each
        for each in text
    )
    return f"\\{shown}" if shown.startswith(" ") else shown
