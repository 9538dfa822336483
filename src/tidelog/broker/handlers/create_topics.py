"""CreateTopics, versions 2 to 7: with defaults, settings, a manual assignment, or only to see whether it
would work.

Ignored: the timeout (a lone broker's metadata log answers or fails).
"""

from collections import Counter
from typing import Any
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.submission import Decide, refuse, submit_each
from tidelog.broker.request import Outcome, RequestContext
from tidelog.config import describe_topic
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.topics import TopicWish
from tidelog.errors import ErrorCode, InvalidConfig, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    names = Counter(topic.name for topic in request.topics)
    unique = list({topic.name: topic for topic in request.topics}.values())
    ids = [broker.services.new_uuid() for _ in unique]
    decisions = [
        refuse(InvalidRequest(f"topic {topic.name!r} is named twice in the request"))
        if names[topic.name] > 1
        else _decide(broker, topic, topic_id)
        for topic, topic_id in zip(unique, ids, strict=True)
    ]

    def answer(refusals: list[TidelogError | None]) -> Fields:
        results = [
            _refused(topic.name, refusal) if refusal else _created(broker, topic, topic_id)
            for topic, topic_id, refusal in zip(unique, ids, refusals, strict=True)
        ]
        return {"topics": results}

    return submit_each(broker, decisions, answer, validate_only=request.validate_only)


def _decide(broker: Broker, topic: Any, topic_id: UUID) -> Decide:
    assignments: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assignments:
            return refuse(
                TidelogError(
                    f"partition {assignment.partition_index} is assigned twice",
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                )
            )
        assignments[assignment.partition_index] = list(assignment.broker_ids)
    configs = {}
    for config in topic.configs:
        if config.value is None:
            return refuse(InvalidConfig(f"setting {config.name} has no value"))
        configs[config.name] = config.value
    wish = TopicWish(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)
    return lambda image: [topics.create(image, wish, broker.config, topic_id)]


def _refused(name: str, refusal: TidelogError) -> Fields:
    return {
        "name": name,
        "error_code": refusal.code,
        "error_message": refusal.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": None,
    }


def _created(broker: Broker, asked: Any, topic_id: UUID) -> Fields:
    """What was made, or would be made, with the settings as they are in force."""
    image: ClusterImage = broker.image
    topic = image.topic_by_id(topic_id)
    if topic is not None:
        partitions, replicas, configs = (
            len(topic.partitions),
            len(topic.partitions[0].replicas),
            topic.configs,
        )
    else:
        partitions = len(asked.assignments) or (
            asked.num_partitions if asked.num_partitions > 0 else broker.config.num_partitions
        )
        replicas = (
            asked.replication_factor
            if asked.replication_factor > 0
            else broker.config.default_replication_factor
        )
        if asked.assignments:
            replicas = len(asked.assignments[0].broker_ids)
        configs = {config.name: config.value for config in asked.configs}
    return {
        "name": asked.name,
        "topic_id": None if topic is None else topic_id,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": [
            {
                "name": setting.name,
                "value": setting.value,
                "read_only": setting.read_only,
                "config_source": setting.source,
                "is_sensitive": setting.sensitive,
            }
            for setting in describe_topic(configs, broker.config)
        ],
    }
