"""The five questions of ``tidelog plan`` without needs: explained, and so is what each answer means."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.config.modes import ISR, QUORUM
from tidelog.planner.faults import brokers_named
from tidelog.planner.needs import ANY, BROKERS_MAX, STRICT, Needs, controllers_disks, count
from tidelog.planner.promises import RULES

FAILURES = 1  # of brokers and of disks, unless something else is answered


class Question(NamedTuple):
    text: str
    why: str
    default: Callable[[Needs], str]
    parse: Callable[[str, Needs], object]  # with what was answered before; ValueError: what an answer is
    field: str
    means: Callable[[Needs], str]  # with this answer, too


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"a number from {least} to {most}")
        return int(text)

    return parse


def _brokers(text: str, known: Needs) -> int:
    return _number(1, BROKERS_MAX)(text)


def _failures(text: str, known: Needs) -> int:
    """At least one broker has to be left."""
    return _number(0, known.brokers - 1)(text)


def _usual_failures(known: Needs) -> str:
    return str(min(FAILURES, known.brokers - 1))


def _yes(text: str, known: Needs) -> bool:
    if text.lower() not in ("y", "yes", "n", "no"):
        raise ValueError("yes or no")
    return text.lower().startswith("y")


def _order(text: str, known: Needs) -> str:
    return STRICT if _yes(text, known) else ANY


def _always(entered: str) -> Callable[[Needs], str]:
    return lambda known: entered


def _tolerated_controllers(known: Needs) -> int:
    return controllers_disks(known.placement(1))


def _of_brokers(known: Needs) -> str:
    controllers = known.placement(1).controllers
    are = "is the controller" if len(controllers) == 1 else "are the controllers"
    tolerated = _tolerated_controllers(known)
    return (
        f"At most {count(known.most_replicas, 'replica')} of each record. By default, "
        f"{brokers_named(controllers)} {are}: their majority survives {count(tolerated, 'failure')}."
    )


def _of_writes(known: Needs) -> str:
    if not known.writes:
        return "Writes may wait for a broker that is down: every mode is possible."
    words = (
        f"isr needs at least {count(RULES[ISR].nodes_for(known.writes), 'replica')} for that, and quorum "
        f"{RULES[QUORUM].nodes_for(known.writes)}."
    )
    if known.writes > _tolerated_controllers(known):
        words += " But so many failures can take the majority of the controllers, without which isr stops."
    return words


def _of_data(known: Needs) -> str:
    if not known.data:
        return "One copy may be enough for an acknowledgement, and one lost disk may cost records."
    words = f"{known.data + 1} copies have to exist before a write is acknowledged"
    if known.writes:
        words += f": together with the answer before, isr needs {known.writes + known.data + 1} replicas"
    if known.data > _tolerated_controllers(known):
        words += ". But so many lost disks can take the metadata of the cluster"
    return f"{words}."


def _of_power(known: Needs) -> str:
    if known.power:
        return "Every write waits until the disks of all replicas that count have it: flush.messages=1."
    return "Writes do not wait for disks. A power failure of all brokers may cost the newest records."


def _of_order(known: Needs) -> str:
    if known.order == STRICT:
        return "Producers stay with a partition: it needs another leader while its leader is down."
    return "Producers may use the partitions of another primary: primary-backup can satisfy this."


QUESTIONS = (
    Question(
        "How many brokers (machines) are there?",
        "A record has at most one copy per broker.",
        _always("3"),
        _brokers,
        "brokers",
        _of_brokers,
    ),
    Question(
        "How many of them may be down at once while writes go on?",
        "Every failure that is survived costs replicas.",
        _usual_failures,
        _failures,
        "writes",
        _of_writes,
    ),
    Question(
        "How many disks may be lost for good without losing an acknowledged record?",
        "More copies before an acknowledgement are safer and slower.",
        _usual_failures,
        _failures,
        "data",
        _of_data,
    ),
    Question(
        "Must nothing be lost if all machines lose power at once (yes or no)?",
        "What the disks do not have yet is lost with the power.",
        _always("no"),
        _yes,
        "power",
        _of_power,
    ),
    Question(
        "Must every record of a key stay in its partition, in order (yes or no)?",
        "Order is kept within a partition.",
        _always("yes"),
        _order,
        "order",
        _of_order,
    ),
)


def ask_all(ask: Callable[[str, str], str], tell: Callable[[str], None]) -> Needs:
    """``ask`` gets the text and the default, and returns the answer."""
    known = Needs()
    for number, question in enumerate(QUESTIONS, 1):
        tell(f"\n{number} of {len(QUESTIONS)}. {question.why}")
        known = known._replace(**_entered(question, known, ask, tell))
        tell(question.means(known))
    return known


def _entered(
    question: Question, known: Needs, ask: Callable[[str, str], str], tell: Callable[[str], None]
) -> dict[str, Any]:
    while True:
        try:
            entered = ask(question.text, question.default(known)).strip()
            return {question.field: question.parse(entered, known)}
        except ValueError as error:
            tell(f"Please answer with {error}.")
