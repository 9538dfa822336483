"""``tidelog broker``: this process becomes a broker.

Imports only what a broker needs anyway; ``app.py`` describes the same options for the help pages.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.failure import CommandFailed, complain
from tidelog.cli.settings import merge_broker_settings, parse_assignments, read_broker_settings
from tidelog.errors import TidelogError


class BrokerArguments(NamedTuple):
    config: Path
    assignments: tuple[str, ...]  # key=value, later ones win over earlier ones and over the file


def parse_plain(words: Sequence[str]) -> BrokerArguments | None:
    """The arguments when they are as plain as scripts write them.

    ``None`` for everything else (help, abbreviations, mistakes): then the full parser answers, which takes
    longer to import and knows how to explain.
    """
    config: Path | None = None
    assignments: list[str] = []
    remaining = iter(words)
    for word in remaining:
        option, equals, value = word.partition("=")
        if option not in ("--config", "--set"):
            return None
        if not equals:
            value = next(remaining, "")
        if not value or value.startswith("--"):
            return None
        if option == "--config":
            config = Path(value)
        else:
            assignments.append(value)
    return BrokerArguments(config, tuple(assignments)) if config is not None else None


def serve(arguments: BrokerArguments) -> int:
    """Run the broker until it is told to stop; the exit code of the process."""
    try:
        values = merge_broker_settings(
            read_broker_settings(arguments.config), parse_assignments(arguments.assignments)
        )
        from tidelog.runtime.process import run_broker

        return run_broker(values, arguments.config.resolve().parent)
    except (CommandFailed, TidelogError) as error:
        complain(str(error))
    except OSError as error:
        complain(f"The broker could not start: {error}.")
    return 1
