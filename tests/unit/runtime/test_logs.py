"""Lines of the log: one for each event, whatever clients call themselves."""

import json
import logging

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
    assert len(line.split("\n")) == 1
    assert json.loads(line)["message"] == f"refused {NAME}"
