"""The page has everything, needs nothing, and is well-formed; the JSON reads back."""

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from tidelog.lab.report import document
from tidelog.lab.results import Results

from .made_up import MODES, results

VOID = {"meta", "br", "img", "link", "rect", "line", "path"}


class Checked(HTMLParser):
    """Refuses tags that do not match, and references to anything outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert tag not in ("script", "link", "iframe", "img")
        assert not found.keys() & {"src", "onclick", "srcset"}
        if found.get("id"):
            assert found["id"] not in self.ids, "an id is there twice"
            self.ids.add(found["id"] or "")
        if (target := found.get("href")) is not None:
            assert target.startswith("#")
            self.links.add(target[1:])
        if tag not in VOID or tag in ("rect", "path", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def checked() -> Checked:
    parser = Checked()
    parser.feed(document.page(results()))
    assert parser.open == []
    return parser


def test_every_link_of_the_matrix_leads_to_a_card(checked: Checked) -> None:
    assert len(checked.links) == 8 and checked.links <= checked.ids


def test_verdicts_are_words_besides_colours(checked: Checked) -> None:
    for words in ("✓ 4 kept", "◐ 2 allowed loss", "✕ 1 broken", "– 1 not run", "◐ allowed loss (41 records)"):
        assert words in checked.words


def test_everything_is_said(checked: Checked) -> None:
    for words in (
        *MODES, "tidelog lab compare", "A processor", "Not complete", "Promised beforehand",
        "read, then gone",
        "kill -9 of broker 1 (leader)", "broker 3", "Round 1 of 3, the worst", "relay", "is not there",
        "Nothing acknowledged is lost <unless both disks are>.",
    ):  # fmt: skip
        assert words in checked.words, words


def test_nothing_is_fetched() -> None:
    page = document.page(results())
    assert "http" not in page and "@import" not in page and "@media print" in page


def test_json_reads_back(tmp_path: Path) -> None:
    written = document.write(results(), tmp_path / "out" / "report.html")
    assert [path.name for path in written] == ["report.html", "report.json"]
    assert msgspec.json.decode(written[1].read_bytes(), type=Results) == results()
    assert document.write(results(), tmp_path / "only.json") == [tmp_path / "only.json"]


def test_results_of_nothing() -> None:
    page = document.page(Results(started="now", seconds=0.0, is_complete=True))
    assert "Not complete" not in page and "0 rounds" in page
