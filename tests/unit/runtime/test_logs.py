"""Lines of the log: one for each event, whatever clients call themselves."""

import json
import logging
import sys

from tidelog.runtime.logs import JsonFormatter, PlainFormatter

NAME = "a\n2026-01-01T00:00:00.000Z error   tidelog: forged\r\x00\x1b[31m\u2028é"
RECORD = logging.LogRecord("tidelog.runtime", logging.WARNING, "", 0, "refused %s", (NAME,), None)


def test_a_plain_line_stays_one() -> None:
    line = PlainFormatter().format(RECORD)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert "refused a\\x0a2026" in line
    assert line.endswith("é")


def test_a_json_line_stays_one() -> None:
    line = JsonFormatter().format(RECORD)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert json.loads(line)["message"] == f"refused {NAME}"


def test_an_exception_cannot_forge_a_line_either() -> None:
    """Its text may be a client's. The lines of a traceback are indented, so none looks like another event."""
    try:
        raise ValueError(NAME)
    except ValueError:
        record = logging.LogRecord("tidelog.runtime", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    first, *rest = PlainFormatter().format(record).split("\n")
    assert first.endswith("failed")
    assert "  Traceback (most recent call last):" in rest
    assert all(line.startswith("  ") and line.isprintable() for line in rest)
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    assert NAME in json.loads(line)["exception"]
