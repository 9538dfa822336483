"""Structured logs: one line per event, ``time level logger message``, or JSON with the same fields."""

import json
import logging
import sys
import time

# Messages contain names from clients. A line break in a name must not look like another log line.
_CONTROL_CODES = (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)
_CONTROL = {code: f"\\x{code:02x}" for code in _CONTROL_CODES}
# In a traceback, lines are the formatter's own, and all of them are indented.
_IN_TRACEBACK = {code: text for code, text in _CONTROL.items() if code != 0x0A}
# JSON itself escapes those below 0x20. The others end lines for some readers, or control a terminal.
_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROL_CODES if code >= 0x7F}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return plain_json(json.dumps(line, ensure_ascii=False))


def plain_json(text: str) -> str:
    """Without characters that end lines or control terminals."""
    return text.translate(_IN_JSON)


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("tidelog.")
        message = record.getMessage().translate(_CONTROL)
        line = f"{timestamp(record.created)} {record.levelname.lower():7} {name}: {message}"
        if record.exc_info:
            traceback = self.formatException(record.exc_info).translate(_IN_TRACEBACK)
            line += "".join(f"\n  {each}" for each in traceback.split("\n"))
        return line


def timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}Z"


def set_up(level: str, style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
