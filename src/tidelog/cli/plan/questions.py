"""The five questions of ``tidelog plan`` without needs: each is explained, and each answer is."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.planner.needs import ANY, STRICT, Needs


class Question(NamedTuple):
    text: str
    why: str
    default: str
    parse: Callable[[str], object]
    field: str


def _count(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not 0 <= value <= most:
            raise ValueError(f"a number from 0 to {most}")
        return value

    return parse


def _brokers(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise ValueError("a number from 1 to 1000")
    return value


def _yes(text: str) -> bool:
    if text.lower() not in ("y", "yes", "n", "no"):
        raise ValueError("yes or no")
    return text.lower().startswith("y")


def _order(text: str) -> str:
    return STRICT if _yes(text) else ANY


QUESTIONS = (
    Question(
        "How many brokers (machines) are there?",
        "A record has at most one copy per broker. By default the first three or five brokers are also the "
        "controllers.",
        "3",
        _brokers,
        "brokers",
    ),
    Question(
        "How many of them may be down at once while writes go on?",
        "isr needs one replica more than that and a majority of the controllers; quorum needs 2n+1 replicas.",
        "1",
        _count(6),
        "writes",
    ),
    Question(
        "How many disks may be lost for good without losing an acknowledged record?",
        "That many copies and one more have to exist before a write is acknowledged. More copies are slower.",
        "1",
        _count(6),
        "data",
    ),
    Question(
        "Must nothing be lost if all machines lose power at once (yes or no)?",
        "Then every write waits for a sync to disk, on every replica that counts.",
        "no",
        _yes,
        "power",
    ),
    Question(
        "Must every record of a key stay in its partition, in order (yes or no)?",
        "If not, producers may use other partitions while a primary is down, and primary-backup is a choice.",
        "yes",
        _order,
        "order",
    ),
)


def ask_all(ask: Callable[[str, str], str], tell: Callable[[str], None]) -> Needs:
    """``ask`` gets the text and the default, and returns the answer."""
    found: dict[str, object] = {}
    for number, question in enumerate(QUESTIONS, 1):
        tell(f"\n{number} of {len(QUESTIONS)}. {question.why}")
        while True:
            try:
                found[question.field] = question.parse(ask(question.text, question.default).strip())
                break
            except ValueError as error:
                words = str(error)
                tell(f"Please answer with {words if words.startswith(('a ', 'yes')) else 'a number'}.")
    return Needs()._replace(**found)  # type: ignore[arg-type]
