"""Terms as the settings of a topic, and as the command that creates it."""

from tidelog.config.modes import DEFAULTS, WITHOUT_MEANING
from tidelog.planner.promises import SYNC_EVERY_MESSAGE, Terms

NEVER = str(2**63 - 1)


def topic_settings(terms: Terms) -> dict[str, str]:
    """What has a meaning in the mode, and is not its default."""
    flush = SYNC_EVERY_MESSAGE if terms.synced else NEVER
    synced_by_default = DEFAULTS[terms.mode].get("flush.messages") == SYNC_EVERY_MESSAGE
    settings = {
        "replication.mode": terms.mode,
        # A topic with more than its replicas is refused.
        "min.insync.replicas": str(min(terms.min_in_sync, terms.replicas)),
        "unclean.leader.election.enable": str(terms.unclean).lower(),
    }
    if terms.synced != synced_by_default:
        settings["flush.messages"] = str(flush)
    if terms.degrades:
        settings["replication.degrade.after.ms"] = "1000"
    return {name: value for name, value in settings.items() if name not in WITHOUT_MEANING[terms.mode]}


def create_command(topic: str, terms: Terms, partitions: int = 0) -> str:
    settings = topic_settings(terms)
    mode = settings.pop("replication.mode")
    words = ["tidelog topic create", topic]
    if partitions:
        words.append(f"--partitions {partitions}")
    words += [f"--replicas {terms.replicas}", f"--mode {mode}"]
    return " ".join([*words, *(f"--set {name}={value}" for name, value in settings.items())])
