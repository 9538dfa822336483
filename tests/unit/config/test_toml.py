"""Settings in TOML files."""

import pytest

from tidelog.config import (
    BrokerConfig,
    read_toml,
)
from tidelog.errors import InvalidConfig

TOML = """
node.id = 3
"log.segment.bytes" = 4096
listeners = ["PLAINTEXT://127.0.0.1:0"]

[log]
retention.hours = "2"
cleanup.policy = ["compact", "delete"]

[log.cleaner]
min.cleanable.ratio = 0.25
enable = false
"""


def test_toml_tables_dotted_and_quoted_names_mean_the_same() -> None:
    broker = BrokerConfig.load(TOML)
    assert broker.node_id == 3
    assert broker.log_segment_bytes == 4096
    assert broker.log_retention_hours == 2
    assert broker.log_cleanup_policy == {"compact", "delete"}
    assert broker.log_cleaner_min_cleanable_ratio == 0.25
    assert broker.log_cleaner_enable is False
    assert broker.static_values["log.cleanup.policy"] == "compact,delete"


def test_the_command_line_wins_over_the_file_also_by_an_alias() -> None:
    broker = BrokerConfig.load(TOML, {"broker.id": "9", "log.segment.bytes": "1024"})
    assert (broker.node_id, broker.log_segment_bytes) == (9, 1024)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node.id = ", "not valid TOML"),
        ("max.connections = 1\nmax.connections.per.ip = 2", "put both in quotes"),
        ("log.dir = 'a'\n[log]\npreallocate = true", "names with the same beginning"),
        ('node.id = 1\n"node.id" = 2', "node.id is set twice"),
        ("node.id = 2020-01-01", "node.id is refused"),
        ("listeners = [1, 2]", "listeners is refused"),
        ("[log.segment]\nbits = 3", "Unknown broker setting log.segment.bits"),
    ],
)
def test_bad_files_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.load(text)
    assert words in caught.value.message


def test_quoted_names_keep_apart_what_bare_ones_cannot() -> None:
    values = read_toml('"max.connections" = 1\n"max.connections.per.ip" = 2')
    assert values == {"max.connections": 1, "max.connections.per.ip": 2}
