"""Shared by the handlers for users, access rules and quotas."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.errors import ErrorCode, TidelogError
from tidelog.security.acls import AclFilter, new_filter


def check_authorizer(broker: Broker) -> None:
    """Without an authorizer, access rules would have no effect. Kafka refuses them, too."""
    if not broker.config.authorizer_class_name:
        raise TidelogError("No Authorizer is configured on the broker", ErrorCode.SECURITY_DISABLED)


def filter_of(asked: Any) -> AclFilter:
    return new_filter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
