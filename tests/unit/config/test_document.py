"""docs/configuration.md says what the tables say."""

import re
from pathlib import Path

import pytest

from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig
from tidelog.config.document import document

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), (
        "write it again: python -m tidelog.config > docs/configuration.md"
    )


@pytest.mark.parametrize("name", [*TOPIC_SETTINGS, *BROKER_SETTINGS])
def test_every_setting_has_its_row(name: str) -> None:
    assert f"\n| `{name}`" in document()


def test_table_rows_have_as_many_cells_as_their_header() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", document(), re.MULTILINE):
        assert len({line.count(" | ") for line in table.splitlines() if not line.startswith("|--")}) == 1


EXAMPLES = re.findall(r"```toml\n(.*?)```", document(), re.DOTALL)


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_work(example: str) -> None:
    assert BrokerConfig.load(example).static_values
