"""Opens the page in a browser, where there is a screen.

The address has a token, and everybody on a machine may read the command lines of all processes. So the
browser is started with a file that only its owner can read, and that file leads to the address.
"""

import html
import os
import sys
import webbrowser
from pathlib import Path

FILE = "page.html"


def open_page(directory: Path, address: str) -> None:
    """Where there is a screen. Elsewhere a browser of the terminal might take our place."""
    has_screen = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if has_screen and sys.stdout.isatty():
        webbrowser.open(_leading_to(address, directory).as_uri())


def forget_page(directory: Path) -> None:
    (directory / FILE).unlink(missing_ok=True)


def _leading_to(address: str, directory: Path) -> Path:
    path = directory.resolve() / FILE
    path.unlink(missing_ok=True)  # Another process may hold an older one open.
    place = html.escape(address)
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(
            f'<!doctype html><meta charset="utf-8"><title>Tidelog</title>'
            f'<meta http-equiv="refresh" content="0; url={place}"><a href="{place}">Tidelog</a>\n'
        )
    return path
