"""The ``tidelog`` command.

Owns what people type and read: commands, help, tables, exit codes. It talks to brokers over the Kafka
protocol and to files of its own making, never to a broker's insides.

Start-up is part of the product: a broker must be up in a fraction of a second and small, so the one command
that becomes a broker is dispatched here before typer, rich or a Kafka client is imported.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 when it failed, 2 if it was not understood, 3 if a check
    found a problem, 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(words)
    except KeyboardInterrupt:  # while what the command needs was still being loaded
        return 130


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["broker"]:
        from tidelog.cli.local.broker import parse_plain, serve

        plain = parse_plain(words[1:])
        if plain is not None:
            return serve(plain)
    from tidelog.cli.app import run

    return run(words)
