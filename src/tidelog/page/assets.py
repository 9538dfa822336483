"""The files that browsers get, read once: they are part of the package, and nothing is fetched elsewhere."""

from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}


class Asset(NamedTuple):
    body: bytes
    content_type: str


def load(directory: Path = DIRECTORY) -> dict[str, Asset]:
    """By their paths, such as ``js/app.js``."""
    return {
        path.relative_to(directory).as_posix(): Asset(path.read_bytes(), TYPES[path.suffix])
        for path in sorted(directory.rglob("*"))
        if path.suffix in TYPES
    }
