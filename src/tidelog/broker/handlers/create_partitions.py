"""CreatePartitions, versions 0 to 3. Ignored: the timeout."""

from collections import Counter
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.mutation_quota import MutationQuota
from tidelog.broker.requests.request import Outcome, RequestContext
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
from tidelog.controller.records import MetadataRecord
from tidelog.controller.topics import Draft
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

STRICT_FROM = 3  # version in which clients understand THROTTLING_QUOTA_EXCEEDED


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if (wanted := _wanted(broker, request)) > PARTITIONS_MAX:
        refusal = too_many_partitions(wanted)
        results = (_result(topic.name, refusal) for topic in request.topics)
        return rows_in_slices(broker, results, lambda rows: {"results": rows})
    names = Counter(topic.name for topic in request.topics)
    unique = list({topic.name: topic for topic in request.topics}.values())
    drafts: list[Draft] = []
    quota = None if request.validate_only else MutationQuota(broker, context, STRICT_FROM)
    decisions = [
        refuse(InvalidRequest(f"topic {topic.name!r} is named twice in the request"))
        if names[topic.name] > 1
        else _decide(broker, topic, drafts, quota)
        for topic in unique
    ]

    def respond(refusals: list[TidelogError | None]) -> Fields:
        return {
            "results": [
                _result(topic.name, refusal) for topic, refusal in zip(unique, refusals, strict=True)
            ],
            "throttle_time": 0 if quota is None else quota.throttle_ms,
        }

    return submit_each(broker, decisions, respond, validate_only=request.validate_only, drafts=drafts)


def _wanted(broker: Broker, request: Any) -> int:
    """New partitions; where there are too many topics, as many as these."""
    if len(request.topics) > PARTITIONS_MAX:
        return len(request.topics)
    return sum(_new_partitions(broker, topic) for topic in request.topics)


def _new_partitions(broker: Broker, topic: Any) -> int:
    known = broker.image.topics.get(topic.name)
    present = len(known.partitions) if known is not None else 0
    return max(int(topic.count) - present, 0)


def _result(name: str, refusal: TidelogError | None) -> Fields:
    if refusal is None:
        return {"name": name}
    return {"name": name, "error_code": refusal.code, "error_message": refusal.message}


def _decide(broker: Broker, topic: Any, drafts: list[Draft], quota: MutationQuota | None) -> Decide:
    assignments = None if topic.assignments is None else [list(item.broker_ids) for item in topic.assignments]
    large = 0 if assignments else _new_partitions(broker, topic)
    draft = draft_if_large(large, lambda: topics.draft_growth(broker.image, topic.name, topic.count), drafts)
    most = broker.config.cluster_partitions_max

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        added = topics.add_partitions(image, topic.name, topic.count, assignments, draft, most)
        if quota is not None:
            quota.use(len(added.assignments))
        return [added]

    return decide
