"""Access rules (ACLs) and the filters that select some of them, with Kafka's numbers.

A rule allows or denies one operation on the resources of one pattern, to one principal from one host. What a
set of rules permits is decided in :mod:`~tidelog.security.access`. Nothing here knows who asks.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, TypeVar

from tidelog.errors import InvalidRequest
from tidelog.security.principal import USER, Principal

WILDCARD = "*"  # as a literal name: every resource; as a host: every host
ANYBODY = Principal(USER, WILDCARD)
CLUSTER_NAME = "kafka-cluster"  # the one resource of type CLUSTER


T = TypeVar("T", bound=IntEnum)


class ResourceType(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    ANY = 1
    MATCH = 2  # in filters: every pattern that contains the name
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. Two rules with the same fields are the same rule."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType  # LITERAL or PREFIXED
    principal: str  # KIND:NAME; User:* stands for every user
    host: str  # an address, or *
    operation: Operation  # ALL stands for every operation
    permission: Permission


class AclFilter(NamedTuple):
    """Selects the rules for which every field fits. None and ANY fit everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def selects(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._fits_pattern(acl)
        )

    def _fits_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name in (None, acl.resource_name):
            return True
        if self.pattern_type is not PatternType.MATCH or self.resource_name is None:
            return False
        if acl.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def select(acls: Iterable[Acl], wanted: AclFilter) -> list[Acl]:
    """In the order of their fields."""
    return sorted(acl for acl in acls if wanted.selects(acl))


def new_acl(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """The rule that a request wants to add. Raises :class:`InvalidRequest`."""
    if not resource_name:
        raise InvalidRequest("Resource name should not be empty")
    if resource_type == ResourceType.CLUSTER and resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    kind, colon, _ = principal.partition(":")
    if not kind or not colon:
        raise InvalidRequest(f"principal {principal[:200]!r} is not of the form KIND:NAME, as User:alice")
    if not host:
        raise InvalidRequest("the host of a rule is an address, or *")
    acl = Acl(
        _member(ResourceType, resource_type, "resource type"),
        resource_name,
        _member(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _member(Operation, operation, "operation"),
        _member(Permission, permission, "permission type"),
    )
    for value in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission):
        if value.name in ("ANY", "MATCH"):
            raise InvalidRequest(f"{value.name} is for filters; a rule needs a certain {_word_of(value)}")
    return acl


def new_filter(
    resource_type: int,
    resource_name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """Raises :class:`InvalidRequest` for unknown numbers."""
    return AclFilter(
        _member(ResourceType, resource_type, "resource type"),
        resource_name,
        _member(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _member(Operation, operation, "operation"),
        _member(Permission, permission, "permission type"),
    )


def _member(kind: type[T], number: int, word: str) -> T:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"unknown {word} {number}") from None


def _word_of(value: IntEnum) -> str:
    words = {ResourceType: "resource type", PatternType: "pattern type", Operation: "operation"}
    return words.get(type(value), "permission type")
