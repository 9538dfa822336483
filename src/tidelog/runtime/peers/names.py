"""The client id by which nodes know each other's requests."""

_PREFIX = "tidelog-node-"


def client_id(node: int) -> str:
    return f"{_PREFIX}{node}"


def node_of(client_id: str | None) -> int | None:
    """The node that asks; None for a client."""
    if client_id is None or not client_id.startswith(_PREFIX):
        return None
    number = client_id[len(_PREFIX) :]
    return int(number) if number.isascii() and number.isdigit() else None
