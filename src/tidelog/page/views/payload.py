"""Bytes of strangers → text that is safe and useful to show. Pure.

Control characters, and characters that change the direction of the text around them, are written as escapes:
they could hide what is there. What is no text is shown as hexadecimal digits.
"""

import json
import re
from collections.abc import Callable
from typing import Any

SHOWN_CHARS = 2000  # in a list
FULL_CHARS = 400_000  # of one message
_HEX_SHOWN = 64

# C0 and C1 without tab and line breaks, and what reorders or hides text.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


Plain = Callable[[bytes | None], tuple[str, bytes] | None]
"""(form, JSON) of a value that has a schema; None: it has none."""


def without_schema(data: bytes | None) -> tuple[str, bytes] | None:
    return None


def with_schema(data: bytes | None, plain: Plain, chars_max: int = SHOWN_CHARS) -> dict[str, Any]:
    """As :func:`decoded`; the form is also avro, and the size that of the bytes in the log."""
    found = plain(data)
    if found is None or data is None:
        return decoded(data, chars_max)
    form, text = found
    return decoded(text, chars_max) | {"form": form, "size": len(data)}


def decoded(data: bytes | None, chars_max: int = SHOWN_CHARS) -> dict[str, Any]:
    """``form``: null, empty, json, text or hex; ``cut``: there is more than is shown."""
    if data is None:
        return {"form": "null", "text": "", "size": 0, "cut": False}
    if not data:
        return {"form": "empty", "text": "", "size": 0, "cut": False}
    # A character takes four bytes at most; a cut one at the end is no reason to call the rest no text.
    part = data[: chars_max * 4]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        if len(part) == len(data) or error.start < len(part) - 3:
            return _hex(data, chars_max)
        text = part[: error.start].decode()
    if _looks_binary(text):
        return _hex(data, chars_max)
    cut = len(text) > chars_max or len(part) < len(data)
    form = "json" if _is_json(data, text, cut) else "text"
    return {"form": form, "text": visible(text[:chars_max]), "size": len(data), "cut": cut}


def visible(text: str) -> str:
    """Every hidden character as an escape."""
    return _HIDDEN.sub(lambda found: _escape(found.group()), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _looks_binary(text: str) -> bool:
    """Most of it is control characters: numbers, Avro or Protobuf that happen to be valid UTF-8."""
    sample = text[:1000]
    controls = sum(character < " " and character not in "\t\n\r" for character in sample)
    return controls * 4 > len(sample)


def _hex(data: bytes, chars_max: int) -> dict[str, Any]:
    shown = data[: max(min(chars_max // 3, len(data)), min(_HEX_SHOWN, len(data)))]
    return {"form": "hex", "text": shown.hex(" "), "size": len(data), "cut": len(shown) < len(data)}


def _is_json(data: bytes, text: str, cut: bool) -> bool:
    """An object or an array. Of a value that is cut, the beginning decides."""
    begin = text.lstrip()[:1]
    if begin not in ("{", "["):
        return False
    if cut:
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
