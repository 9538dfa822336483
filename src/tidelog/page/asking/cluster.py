"""Brokers, controllers and partitions, as one broker knows them."""

from collections.abc import Mapping

from tidelog.client import messages
from tidelog.client.apis import Api
from tidelog.client.topic_partitions import (
    VERSION,
    TopicSeen,
    joined,
    of_metadata,
    parse,
    request,
)
from tidelog.page.asking.link import Link, NotServed
from tidelog.page.facts import NO_LEADER, BrokerSeen, ClusterSeen, Quorum

METADATA_LOG = "__cluster_metadata"


def look(link: Link, before: Quorum) -> ClusterSeen:
    """Everything at once. ``before``: the controllers as they were known; what has no answer stays."""
    # Brokers after topics: one that dies in between would have lost its leaderships and still be unfenced.
    topics = _topics(link)
    controllers = quorum(link, before)
    described = link.ask(Api.DESCRIBE_CLUSTER, {"endpoint_type": 1, "include_fenced_brokers": True})
    if described.error_code:
        raise ConnectionError(described.error_message or "the cluster cannot be described")
    brokers = {
        int(each.broker_id): BrokerSeen(
            int(each.broker_id), each.host, each.port, each.rack or "", getattr(each, "is_fenced", False)
        )
        for each in described.brokers
    }
    return ClusterSeen(
        described.cluster_id,
        dict(sorted(brokers.items())),
        controllers,
        topics,
        link.address,
    )


def quorum(link: Link, before: Quorum) -> Quorum:
    """The controllers. ``before``: as they were known; what has no answer stays."""
    topics = [{"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}]
    try:
        response = link.ask(Api.DESCRIBE_QUORUM, {"topics": topics})
    except NotServed:
        return before._replace(leader=NO_LEADER)  # an older Kafka with ZooKeeper
    partition = response.topics[0].partitions[0] if response.topics else None
    if response.error_code or partition is None or partition.error_code:
        return before._replace(leader=NO_LEADER)
    voters = tuple(sorted(int(each.replica_id) for each in partition.current_voters))
    return Quorum(int(partition.leader_id), int(partition.leader_epoch), voters or before.voters)


def _topics(link: Link) -> Mapping[str, TopicSeen]:
    if not link.serves(Api.DESCRIBE_TOPIC_PARTITIONS, VERSION):
        body = messages.metadata_request(None)
        found = messages.metadata(link.call(Api.METADATA, messages.METADATA_VERSION, body)).topics
        return {name: of_metadata(topic) for name, topic in sorted(found.items()) if not topic.error}
    pages = []
    cursor = None
    while True:
        page, cursor = parse(link.call(Api.DESCRIBE_TOPIC_PARTITIONS, VERSION, request(cursor)))
        pages.append(page)
        if cursor is None:
            return dict(sorted(joined(pages).items()))
