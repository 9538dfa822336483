"""Tables for people."""

import json

import pytest

from tidelog.cli.failure import complain
from tidelog.cli.tables import as_cell, count, print_json, print_table


def test_a_table_in_a_pipe_never_wraps(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table([{"name": long, "size": 5}], {"name": "name", "size": "bytes"}, right=("size",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "bytes"]
    assert lines[-1].split() == [long, "5"]


def test_lines_in_a_pipe_end_with_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(
        [{"name": "a", "state": "x"}, {"name": "b", "state": "a long one"}], {"name": "n", "state": "s"}
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_value_is_shown_as_it_is_and_not_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "[bold]a[/bold]"}], {"name": "name"})
    assert "[bold]a[/bold]" in capsys.readouterr().out


NAME = "a\x1b]0;title\x07\r\x9b2J\u202eb"


def test_names_of_clients_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Any client may choose the id of its group, and an administrator lists them."""
    print_table([{"name": NAME}], {"name": "name"})
    print_json({"name": NAME})
    complain(f"There is no group {NAME}.")
    said = capsys.readouterr()
    assert r"a\x1b]0;title\x07\x0d\x9b2J\x202eb" in said.out
    assert json.loads(said.out[said.out.index("{") :]) == {"name": NAME}
    for text in (said.out, said.err):
        assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    ("value", "cell"), [(None, "-"), (True, "yes"), (False, "no"), ([], "-"), ([1, 2], "1, 2"), (0, "0")]
)
def test_cells(value: object, cell: str) -> None:
    assert as_cell(value) == cell


def test_count_agrees_with_its_noun() -> None:
    assert [count(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
