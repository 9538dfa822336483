"""Shared by all handlers that use the coordinator of a group."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.group_machine import GroupMachine
from tidelog.broker.future import Future
from tidelog.broker.requests.request import RequestContext
from tidelog.groups.shard import check_group_id
from tidelog.protocol.messages import Fields


def machine_of(broker: Broker, group_id: str, *, may_be_empty: bool = False) -> GroupMachine:
    """The machine of the group. Raises the error for the client if this broker does not coordinate it."""
    check_group_id(group_id, may_be_empty=may_be_empty)
    return broker.coordinators.groups.machine_of(group_id)


def answered(response: Future[Any], convert: Callable[[Any], Fields]) -> Future[Fields]:
    """The fields of a response that is available later."""
    fields: Future[Fields] = Future()
    response.then(lambda value: fields.complete(convert(value)))
    return fields


def client_host(context: RequestContext) -> str:
    """A member's address in the format of Kafka's tools."""
    return "/" + context.host
