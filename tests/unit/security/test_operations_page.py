"""The table of rights in docs/security.md says what the code asks for."""

from pathlib import Path

from tidelog.protocol.messages import name_of
from tidelog.security.operations import NEEDS, Need, Right

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def _words(right: Right) -> str:
    return f"{right.operation.name} {right.kind.name.lower().replace('_', ' ')}"


def _need(need: Need) -> str:
    text = _words(need.right)
    if need.instead is not None:
        text += f" or {_words(need.instead)}"
    if need.when:
        text += f" ({need.when})"
    return f"*{text}*" if need.hides else text


def rows() -> list[str]:
    return [
        f"| {''.join(word.capitalize() for word in name_of(key).split('_'))} | "
        f"{', '.join(map(_need, needs)) or '–'} |"
        for key, needs in NEEDS.items()
    ]


def test_every_row_is_on_the_page() -> None:
    page = PAGE.read_text().splitlines()
    assert [row for row in rows() if row not in page] == []
