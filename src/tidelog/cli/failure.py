"""How a command fails: one plain sentence on stderr and a code that is not zero."""

import sys

from tidelog.cli.plain import plain


class CommandFailed(Exception):
    """What went wrong, in one sentence that says what to do about it where we know."""

    exit_code = 1

    def __init__(self, sentence: str, kafka_error: str = "") -> None:
        super().__init__(sentence)
        self.kafka_error = kafka_error  # Kafka's name of the error, where it was one


class InvalidCommandLine(CommandFailed):
    """What was typed means nothing, whatever the state of the cluster. Nothing was asked or changed."""

    exit_code = 2


class ProblemFound(CommandFailed):
    """A check was carried out, and what it checks is not as it should be."""

    exit_code = 3


def complain(sentence: str) -> None:
    """Print the sentence with which a command ends."""
    sys.stdout.flush()
    print(f"tidelog: {plain(sentence)}", file=sys.stderr, flush=True)
