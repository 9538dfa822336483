"""What a set of access rules permits, with the meaning of Kafka's StandardAuthorizer.

A rule counts if its pattern contains the resource, its principal is the client's or ``User:*``, and its host
the client's or ``*``. Then:

- a rule that denies the operation, or ALL, wins;
- otherwise a rule that allows the operation, or ALL, is needed. READ, WRITE, DELETE and ALTER also allow
  DESCRIBE, and ALTER_CONFIGS also allows DESCRIBE_CONFIGS; for DENY, nothing is implied;
- a resource without any rule, of whatever principal, is closed, unless ``open_without_rules``;
- super users may do everything, whatever the rules say.

Verdicts are kept until the rules change, so that a request costs one look-up for each of its resources. Who
asks, and what a request needs, is known elsewhere (:mod:`~tidelog.security.operations`).
"""

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain

from tidelog.security.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidelog.security.principal import USER, Principal

VERDICTS_MAX = 20_000
LONG_NAME = 300  # Verdicts on longer names are not kept: the ids of groups can have 32 KB.
_ANYBODY = f"{USER}:{WILDCARD}"
_NO_RESOURCE = "hardcode"  # Kafka's name for a resource without rules

_ALLOWED_BY: dict[Operation, frozenset[Operation]] = {
    operation: frozenset({operation, Operation.ALL}) for operation in Operation
}
_ALLOWED_BY[Operation.DESCRIBE] |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
_ALLOWED_BY[Operation.DESCRIBE_CONFIGS] |= {Operation.ALTER_CONFIGS}

OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE,
        Operation.ALTER, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
}  # fmt: skip
"""The operations that make sense for a resource, of those whose responses list what a client may do."""

_Key = tuple[ResourceType, PatternType, str]
_Verdict = tuple[Principal, str, Operation, ResourceType, str | None]


class AccessTable:
    def __init__(self, super_users: Collection[str] = (), *, open_without_rules: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._open_without_rules = open_without_rules
        self._acls: frozenset[Acl] = frozenset()
        # Pattern → principal → its rules.
        self._rules: dict[_Key, dict[str, set[Acl]]] = {}
        self._rules_of: dict[tuple[str, ResourceType], set[Acl]] = {}  # by principal
        # How many prefixes of each length there are: a name is looked up once for each length.
        self._lengths: dict[ResourceType, Counter[int]] = {kind: Counter() for kind in ResourceType}
        self._verdicts: dict[_Verdict, bool] = {}

    # --- rules ----------------------------------------------------------------------------------------------

    def follow(self, acls: frozenset[Acl]) -> None:
        """Take over the rules of newer metadata."""
        if acls is self._acls:
            return
        for acl in self._acls - acls:
            self._remove(acl)
        for acl in acls - self._acls:
            self._add(acl)
        self._acls = acls
        self._verdicts.clear()

    def _add(self, acl: Acl) -> None:
        key = acl.resource_type, acl.pattern_type, acl.resource_name
        by_principal = self._rules.get(key)
        if by_principal is None:
            by_principal = self._rules[key] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                self._lengths[acl.resource_type][len(acl.resource_name)] += 1
        by_principal.setdefault(acl.principal, set()).add(acl)
        self._rules_of.setdefault((acl.principal, acl.resource_type), set()).add(acl)

    def _remove(self, acl: Acl) -> None:
        key = acl.resource_type, acl.pattern_type, acl.resource_name
        by_principal = self._rules[key]
        by_principal[acl.principal].discard(acl)
        of_principal = self._rules_of[acl.principal, acl.resource_type]
        of_principal.discard(acl)
        if not of_principal:
            del self._rules_of[acl.principal, acl.resource_type]
        if not by_principal[acl.principal]:
            del by_principal[acl.principal]
        if by_principal:
            return
        del self._rules[key]
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    @property
    def rules(self) -> object:
        """Another object after each change."""
        return self._acls

    # --- verdicts -------------------------------------------------------------------------------------------

    def is_super(self, principal: Principal) -> bool:
        return str(principal) in self._super_users

    def permits(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        key = principal, host, operation, kind, name
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._work_out(principal, host, operation, kind, name)
            if len(name) <= LONG_NAME:
                if len(self._verdicts) >= VERDICTS_MAX:
                    self._verdicts.clear()
                self._verdicts[key] = verdict
        return verdict

    def _work_out(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        who = str(principal)
        if who in self._super_users:
            return True
        has_rules = allowed = False
        for by_principal in self._matching(kind, name):
            has_rules = True
            found = [by_principal[each] for each in (who, _ANYBODY) if each in by_principal]
            for acl in chain.from_iterable(found):
                if not _fits_host(acl, host):
                    continue
                if acl.permission is Permission.DENY:
                    if acl.operation in (operation, Operation.ALL):
                        return False
                elif acl.operation in _ALLOWED_BY[operation]:
                    allowed = True
        return allowed or (self._open_without_rules and not has_rules)

    def _matching(self, kind: ResourceType, name: str) -> Iterator[dict[str, set[Acl]]]:
        """The rules of every pattern that contains this name."""
        rules = self._rules
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            found = rules.get((kind, PatternType.LITERAL, literal))
            if found is not None:
                yield found
        for length in self._lengths[kind]:
            if length <= len(name):
                found = rules.get((kind, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found

    def permits_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there can be a resource of this type for which the operation is permitted. As in Kafka,
        implied operations do not count.
        """
        key = principal, host, operation, kind, None
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self.permits(principal, host, operation, kind, _NO_RESOURCE)
            verdict = self._verdicts[key] = verdict or self._permits_some(principal, host, operation, kind)
        return verdict

    def _permits_some(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for who in (str(principal), _ANYBODY):
            for acl in self._rules_of.get((who, kind), ()):
                if acl.operation in (operation, Operation.ALL) and _fits_host(acl, host):
                    patterns = allowed if acl.permission is Permission.ALLOW else denied
                    patterns.add((acl.pattern_type, acl.resource_name))
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        prefixes = [name for pattern, name in denied if pattern is PatternType.PREFIXED]
        return everything in allowed or any(
            (pattern, name) not in denied and not name.startswith(tuple(prefixes))
            for pattern, name in allowed
        )

    def operations(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        """Everything the principal may do with a resource, as Kafka's bit field."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[kind]
            if self.permits(principal, host, operation, kind, name)
        )


def _fits_host(acl: Acl, host: str) -> bool:
    return acl.host in (WILDCARD, host) or _same_address(acl.host, host)


def _same_address(written: str, host: str) -> bool:
    """Java writes IPv6 addresses in full, and rules may come from Java's tools."""
    if ":" not in written or ":" not in host:
        return False
    try:
        return ipaddress.ip_address(written) == ipaddress.ip_address(host)
    except ValueError:
        return False


def all_operations(kind: ResourceType) -> int:
    """What everybody may do where there are no access rules."""
    return sum(1 << operation for operation in OPERATIONS_OF[kind])
