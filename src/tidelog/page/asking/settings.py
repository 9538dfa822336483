"""Settings of topics and of a broker."""

from collections.abc import Iterable, Sequence

from tidelog.client.apis import Api
from tidelog.page.asking.link import Link
from tidelog.page.facts import Settings, SettingSeen

TOPIC, BROKER = 2, 4


def of_topics(link: Link, topics: Iterable[str], names: Sequence[str] | None) -> dict[str, Settings]:
    """``names``: only these settings; None: all of them. A topic that is gone is left out."""
    return _read(link, TOPIC, topics, names)


def of_broker(link: Link, broker: int, names: Sequence[str]) -> Settings:
    return _read(link, BROKER, [str(broker)], names).get(str(broker), {})


def _read(
    link: Link, kind: int, resources: Iterable[str], names: Sequence[str] | None
) -> dict[str, Settings]:
    wanted = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": names} for name in resources
    ]
    if not wanted:
        return {}
    body = {"resources": wanted, "include_synonyms": False, "include_documentation": False}
    response = link.ask(Api.DESCRIBE_CONFIGS, body)
    return {
        result.resource_name: {
            each.name: SettingSeen(None if each.is_sensitive else each.value, int(each.config_source))
            for each in result.configs
        }
        for result in response.results
        if not result.error_code
    }
