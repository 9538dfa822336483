"""Kafka clients for the commands, quick to fail and in plain words when they do.

The client library is imported inside functions only, so that help and ``tidelog up`` do not pay for it.
"""

import concurrent.futures
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.cli.client_config import client_config
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import REQUEST_TIMEOUT_S as REQUEST_TIMEOUT_S
from tidelog.cli.reach import Address, joined

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")


def client_settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    """Settings every client starts from, with the addresses that listen.

    The library would retry a refused connection until its timeout and print each attempt; a user should learn
    at once that no broker is running.
    """
    with ClusterClient(bootstrap) as client:
        addresses = client.addresses
    logger = logging.getLogger("tidelog.cli.client")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False  # what matters of it comes back as an error, and then as one sentence
    common = {"bootstrap.servers": joined(addresses), "client.id": "tidelog-cli", "logger": logger}
    return common | client_config(bootstrap).librdkafka | more


def connect_admin(bootstrap: str) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    _check_controller(bootstrap)
    return AdminClient(client_settings(bootstrap))


def _check_controller(bootstrap: str) -> None:
    """The library asks the broker that metadata name as controller, and waits for it until its timeout. While
    no other can replace it, it is named although it is frozen.
    """
    with ClusterClient(bootstrap) as client:
        found = client.metadata()
        address = next(
            (Address(each.host, each.port) for each in found.brokers if each.node_id == found.controller_id),
            None,
        )
        if address is not None and client.silent([address]):
            raise CommandFailed(
                f"Broker {found.controller_id} would have to answer this. It accepts connections, but does "
                "not answer; `tidelog cluster status` says more."
            )


def admin_library() -> Any:
    """The library's module for administration; untyped, because its types do not cover what it exports."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def wait(future: "concurrent.futures.Future[T]", topic: str = "") -> T:
    """The result of one administrative request; ``topic`` is what it is about, for the words of a refusal."""
    from confluent_kafka import KafkaException

    try:
        return future.result(REQUEST_TIMEOUT_S + 1)
    except KafkaException as error:
        raise refusal(error, topic) from None
    except concurrent.futures.TimeoutError:
        raise CommandFailed("The broker did not answer in time.") from None


def refusal(exception: "KafkaException", topic: str = "") -> CommandFailed:
    """A client library's exception as a failure of the command."""
    error = exception.args[0]
    return CommandFailed(explain(error, topic), error.name())


def explain(error: "KafkaError", topic: str = "") -> str:
    """One sentence for an error of the client or the broker, ending with Kafka's name for it."""
    name = error.name()
    if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC") and topic:
        return f"Topic '{topic}' does not exist; `tidelog topic list` shows the existing ones."
    if name == "TOPIC_EXCEPTION" and topic and error.str() == "Broker: Invalid topic":
        return (
            f"'{topic}' cannot be the name of a topic: a name has up to 249 letters, digits, '.', '_' and "
            f"'-', and is not '.' or '..' ({name})."
        )
    if name == "MSG_SIZE_TOO_LARGE" and topic:
        return f"The record is larger than max.message.bytes of topic '{topic}' ({name})."
    if name == "_UNKNOWN_PARTITION":
        return (
            f"Topic '{topic}' has no such partition, or it has no leader; `tidelog topic describe {topic}` "
            "shows the state."
        )
    if name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"):
        return f"The connection to the broker was lost ({name})."
    if name == "_MSG_TIMED_OUT" and topic:
        return (
            "The record was not acknowledged in time: the leader or too many replicas may be down; "
            f"`tidelog topic describe {topic}` shows the state ({name})."
        )
    if name in ("_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE"):
        return f"The broker did not answer in time; `tidelog cluster status` may say why ({name})."
    sentence = error.str().rstrip(". ").removeprefix("Broker: ").removeprefix("Local: ")
    # A sentence may begin with the name of a setting, which has no capital.
    if sentence.partition(" ")[0].isalpha():
        sentence = sentence[:1].upper() + sentence[1:]
    return f"{sentence} ({name})."


def find_topic(client: Any, topic: str) -> Any:
    """A topic's metadata; one that does not exist is a failure, unless the broker creates it for asking."""
    from confluent_kafka import KafkaException

    try:
        found = client.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
    except KafkaException as error:
        raise refusal(error, topic) from None
    # A leader that is still being elected is no reason to give up: the client waits for it.
    if found.error is not None and found.error.name() != "LEADER_NOT_AVAILABLE":
        raise CommandFailed(explain(found.error, topic))
    return found
