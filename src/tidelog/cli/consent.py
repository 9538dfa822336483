"""Asking before something gets worse or cannot be undone; `--yes` answers for scripts."""

import sys

import typer

from tidelog.cli.failure import CommandFailed


def consent(what: str, *, yes: bool) -> None:
    """Go on only if the user agrees. Without a terminal there is no one to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{what} Nothing was changed; pass --yes to do it.")
    if not typer.confirm(f"{what} Go on?"):
        raise CommandFailed("Nothing was changed.")
