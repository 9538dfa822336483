"""Which topics the client of a Metadata request may see and create, and what it may do with them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.requests.access import access_of, operations_for, sees_topic
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType


class TopicRights:
    def __init__(self, broker: Broker, request: Any, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._access = access_of(broker, context)
        self._tells_operations = getattr(request, "include_topic_authorized_operations", False)
        self._tells_of_cluster = getattr(request, "include_cluster_authorized_operations", False)
        self.refused: list[Fields] = []  # rows of topics that were asked for and are not shown

    def shown(self, wanted: Sequence[str | UUID] | None) -> Sequence[str | UUID] | None:
        """Those that the client may see. None: all topics, of which some are not mentioned."""
        access = self._access
        if access is None or wanted is None:
            return wanted
        shown: list[str | UUID] = []
        for each in wanted:
            name = self._broker.image.topic_names.get(each) if isinstance(each, UUID) else each
            if name is None or access.topic(Operation.DESCRIBE, name):
                shown.append(each)
            else:
                # Neither the name for an id nor the id for a name is told, nor whether there is such a topic.
                by_id = isinstance(each, UUID)
                self.refused.append(
                    {
                        "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        "name": None if by_id else each,
                        "topic_id": each if by_id else None,
                    }
                )
        return shown

    def sees(self, name: str) -> bool:
        return sees_topic(self._access, name)

    def refused_creations(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """The topics that the client may not create."""
        access = self._access
        if access is None or access.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            return {}
        denied = (name for name in names if not access.topic(Operation.CREATE, name))
        return dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def of_topic(self, name: str) -> Fields:
        """What the client may do with the topic, if it has asked for that."""
        if not self._tells_operations:
            return {}
        operations = operations_for(self._broker, self._context, ResourceType.TOPIC, name)
        return {"topic_authorized_operations": operations}

    def of_cluster(self) -> Fields:
        if not self._tells_of_cluster:
            return {}
        operations = operations_for(self._broker, self._context, ResourceType.CLUSTER, CLUSTER_NAME)
        return {"cluster_authorized_operations": operations}
