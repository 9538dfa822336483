"""Whether the topics of a command exist, before Spark starts to read or write them."""

from collections.abc import Iterable, Mapping

from tidelog.cli.failure import CommandFailed


def require_topics(bootstrap: str, names: Iterable[str], options: Mapping[str, str] | None = None) -> None:
    """:class:`CommandFailed` names the topics that do not exist. ``options``: ``kafka.*`` of the connection;
    others are ignored.
    """
    wanted = list(dict.fromkeys(name for name in names if name))
    if not wanted:
        return
    from tidelog.client.cluster import Cluster
    from tidelog.spark.client_settings import client_settings
    from tidelog.spark.options import Options

    with Cluster(
        client_settings(Options({"kafka.bootstrap.servers": bootstrap, **(options or {})}))
    ) as cluster:
        found = cluster.known_topics(wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CommandFailed(missing_topics(missing))


def missing_topics(names: list[str]) -> str:
    """What is said of topics that do not exist."""
    if len(names) == 1:
        return (
            f"Topic '{names[0]}' does not exist; `tidelog topic list` shows the existing ones, "
            f"`tidelog topic create {names[0]}` creates it."
        )
    listed = ", ".join(f"'{name}'" for name in names)
    return f"Topics {listed} do not exist; `tidelog topic list` shows the existing ones."
