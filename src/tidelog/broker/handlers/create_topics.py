"""CreateTopics, versions 2 to 7: with defaults, settings or a manual assignment; or only validation.

Ignored: the timeout (the request succeeds or fails with the write to the metadata log).
"""

from collections import Counter
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.mutation_quota import MutationQuota
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.resources import settings_in_force
from tidelog.broker.requests.submission import (
    PARTITIONS_MAX,
    Decide,
    draft_if_large,
    refuse,
    rows_in_slices,
    submit_each,
    too_many_partitions,
)
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord, TopicCreated
from tidelog.controller.topics import Draft, NewTopic
from tidelog.errors import ErrorCode, InvalidConfig, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

STRICT_FROM = 6  # version in which clients understand THROTTLING_QUOTA_EXCEEDED


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if (wanted := _wanted(broker, request)) > PARTITIONS_MAX:
        refusal = too_many_partitions(wanted)
        refused = (_refused(topic.name, refusal) for topic in request.topics)
        return rows_in_slices(broker, refused, lambda rows: {"topics": rows})
    names = Counter(topic.name for topic in request.topics)
    unique = list({topic.name: topic for topic in request.topics}.values())
    made: dict[str, TopicCreated] = {}
    quota = None if request.validate_only else MutationQuota(broker, context, STRICT_FROM)
    drafts: list[Draft] = []
    decisions = [
        refuse(InvalidRequest(f"topic {topic.name!r} is named twice in the request"))
        if names[topic.name] > 1
        else _decide(broker, topic, made, drafts, quota)
        for topic in unique
    ]

    def respond(refusals: list[TidelogError | None]) -> Fields:
        results = [
            _refused(topic.name, refusal) if refusal else _created(broker, made[topic.name])
            for topic, refusal in zip(unique, refusals, strict=True)
        ]
        return {"topics": results, "throttle_time": 0 if quota is None else quota.throttle_ms}

    return submit_each(broker, decisions, respond, validate_only=request.validate_only, drafts=drafts)


def _wanted(broker: Broker, request: Any) -> int:
    """Partitions; where there are too many topics, as many as these."""
    if len(request.topics) > PARTITIONS_MAX:
        return len(request.topics)
    return sum(_partitions_of(broker, topic) for topic in request.topics)


def _partitions_of(broker: Broker, topic: Any) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _decide(
    broker: Broker,
    topic: Any,
    made: dict[str, TopicCreated],
    drafts: list[Draft],
    quota: MutationQuota | None,
) -> Decide:
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
    new = NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)
    topic_id = broker.services.new_uuid()
    large = 0 if assignments else _partitions_of(broker, topic)
    draft = draft_if_large(large, lambda: topics.draft_creation(broker.image, new, broker.config), drafts)

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        created = topics.create(image, new, broker.config, topic_id, draft)
        if quota is not None:
            quota.use(len(created.assignments))
        made[topic.name] = created
        return [created]

    return decide


def _refused(name: str, refusal: TidelogError) -> Fields:
    return {
        "name": name,
        "error_code": refusal.code,
        "error_message": refusal.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": None,
    }


def _created(broker: Broker, topic: TopicCreated) -> Fields:
    """The topic that was created, or would be, with its effective settings."""
    replicas = len(topic.assignments[0])
    return {
        "name": topic.name,
        "topic_id": topic.topic_id if broker.image.topic_by_id(topic.topic_id) else None,
        "num_partitions": len(topic.assignments),
        "replication_factor": replicas,
        "configs": [
            {
                "name": setting.name,
                "value": setting.value,
                "read_only": setting.read_only,
                "config_source": setting.source,
                "is_sensitive": setting.sensitive,
            }
            for setting in settings_in_force(topic.configs, replicas, broker.config)
        ],
    }
