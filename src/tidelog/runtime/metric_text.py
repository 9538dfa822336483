"""Prometheus' text format, for metrics of which there may be thousands: no objects are created for them."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def about(name: str, kind: str, words: str) -> str:
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n"


def escaped(value: str) -> str:
    """For a label. Group ids may have any characters; names of topics need no escaping."""
    return value.encode("utf-8", "replace").decode().translate(_ESCAPES)
