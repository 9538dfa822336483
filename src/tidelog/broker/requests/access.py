"""What the client of one request may do. Handlers and guards ask here, and need not know about principals."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields, name_of
from tidelog.security.access import AccessTable, all_operations
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidelog.security.audit import Audit


class Access:
    __slots__ = ("_audit", "_context", "_host", "_principal", "_table")

    def __init__(self, table: AccessTable, audit: Audit | None, context: RequestContext) -> None:
        self._table = table
        self._audit = audit
        self._context = context
        self._principal = context.principal
        self._host = context.host

    @property
    def rules(self) -> object:
        """Another object after each change of the rules."""
        return self._table.rules

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do what it asks for. A refusal is a line of the audit log."""
        if self._table.permits(self._principal, self._host, operation, kind, name):
            return True
        self.note_refusal(operation, kind, name)
        return False

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """The same where it is no refusal if it may not: the client has not named the resource."""
        return self._table.permits(self._principal, self._host, operation, kind, name)

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        return self._table.permits_any(self._principal, self._host, operation, kind)

    def topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, name)

    def group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.GROUP, name)

    def transactional_id(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name)

    def cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, kind: ResourceType, name: str) -> int:
        return self._table.operations(self._principal, self._host, kind, name)

    def note_refusal(self, operation: Operation, kind: ResourceType, name: str) -> None:
        if self._audit is not None:
            context = self._context
            self._audit.refused(
                self._principal, self._host, name_of(context.api_key), operation, kind, name,
                context.client_id,
            )  # fmt: skip


def access_of(broker: Broker, context: RequestContext) -> Access | None:
    """None: everything is allowed. There are no access rules here, or a node of the cluster asks."""
    if broker.access is None or context.by_node:
        return None
    return Access(broker.access, broker.audit, context)


def operations_for(broker: Broker, context: RequestContext, kind: ResourceType, name: str) -> int:
    """What the client may do with a resource, for the responses that say so."""
    access = access_of(broker, context)
    return all_operations(kind) if access is None else access.operations(kind, name)


def sees_topic(access: Access | None, name: str) -> bool:
    return access is None or access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)


def group_operations(broker: Broker, request: Any, context: RequestContext, group_id: str) -> Fields:
    """The field of a described group, if the client has asked for it."""
    if not getattr(request, "include_authorized_operations", False):
        return {}
    return {"authorized_operations": operations_for(broker, context, ResourceType.GROUP, group_id)}
