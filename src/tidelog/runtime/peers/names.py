"""The client id of requests between nodes: the sender and the intended receiver.

After a node has moved, another node may use its old address. Without the intended receiver that node would
respond in its place.
"""

_PREFIX = "tidelog-node-"
_TO = "-to-"


def client_id(node: int, to: int) -> str:
    return f"{_PREFIX}{node}{_TO}{to}"


_DIGITS_MAX = 10  # of a node's id, which has 31 bits


def parties(client_id: str | None) -> tuple[int, int] | None:
    """The sending and the intended node; None for a client."""
    if client_id is None or not client_id.startswith(_PREFIX):
        return None
    asker, _, asked = client_id.removeprefix(_PREFIX).partition(_TO)
    return (int(asker), int(asked)) if _is_number(asker) and _is_number(asked) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
