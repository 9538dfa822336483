"""The table in the documentation is the one the code goes by."""

import re
from pathlib import Path

from tidelog.transactions.states import BEFORE, BY_LABEL

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"


def test_the_documented_transitions_are_those_there_are() -> None:
    section = PAGE.read_text().partition("## Transaction states")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ", section, re.MULTILINE)
    told = {(BY_LABEL[old], BY_LABEL[new]) for old, new in rows if old in BY_LABEL}
    assert told == {(old, new) for new, before in BEFORE.items() for old in before}
