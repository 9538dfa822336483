"""Lines of keys in TOML."""

from tidelog.lab.experiment.lines import Lines

TEXT = '''\
title = "a"
note = """
rounds = 1
"""
rounds = 2

[cluster.settings]
"a.b" = 1
c.d = 2

[[topics]]
name = "x"
[[topics]]
name = "y"  # the second
[topics.settings]
e = 1
'''


def test_keys_tables_and_elements_are_found() -> None:
    lines = Lines(TEXT)
    assert lines.of(("title",)) == 1
    assert lines.of(("cluster", "settings", "a.b")) == 8
    assert lines.of(("cluster", "settings", "c.d")) == 9
    assert lines.of(("topics", 0, "name")) == 12
    assert lines.of(("topics", 1, "name")) == 14
    assert lines.of(("topics", 1, "settings", "e")) == 16


def test_text_of_several_lines_is_not_searched() -> None:
    assert Lines(TEXT).of(("rounds",)) == 5


def test_what_is_not_there_is_at_the_table_around_it() -> None:
    lines = Lines(TEXT)
    assert lines.of(("topics", 1, "replicas")) == 13
    assert lines.of(("checks", "lost_max")) == 1
