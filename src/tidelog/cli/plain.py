"""Names that clients have chosen, and messages of brokers, as a terminal may get them. The id of a group
could otherwise move the cursor, change the title, or hide the line above.
"""

_CONTROL_CODES = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_CONTROL = {code: f"\\x{code:02x}" for code in _CONTROL_CODES if code != 0x0A}
# JSON itself escapes those below 0x20.
_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROL_CODES if code >= 0x7F}


def plain(text: str) -> str:
    """Without characters that control a terminal, but for the ends of lines."""
    return text.translate(_CONTROL)


def plain_json(text: str) -> str:
    return text.translate(_IN_JSON)
