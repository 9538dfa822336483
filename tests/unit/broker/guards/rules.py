"""A broker with an authorizer, and rules for its one user."""

from tidelog.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidelog.security.principal import Principal
from unit.broker.fakes import FakeBroker

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "admin")
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def secured_broker(**settings: object) -> FakeBroker:
    """Its requests are alice's, and it has no rules."""
    broker = FakeBroker(authorizer_class_name=STANDARD, super_users=str(ADMIN), **settings)
    broker.principal = ALICE
    return broker


def allow(
    operation: Operation, kind: ResourceType, name: str = WILDCARD, pattern: PatternType = PatternType.LITERAL
) -> Acl:
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else name
    return Acl(kind, name, pattern, str(ALICE), WILDCARD, operation, Permission.ALLOW)


def deny(operation: Operation, kind: ResourceType, name: str = WILDCARD) -> Acl:
    return allow(operation, kind, name)._replace(permission=Permission.DENY)
