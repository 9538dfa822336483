"""What the metadata says about security: credentials of users, access rules and client quotas.

The image of it is one immutable object, which is replaced only when one of its records is applied. So its
identity tells whether anything that was derived from it is still right. Who enforces it is the broker's
concern. The decisions about changes are here, too.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidelog.controller.records import (
    AclAdded,
    AclRemoved,
    ClientQuotaChanged,
    MetadataRecord,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    SecurityRecord,
)
from tidelog.errors import ErrorCode, TidelogError
from tidelog.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, select
from tidelog.security.quota_entities import QuotaEntity
from tidelog.security.scram import ScramCredential, ScramMechanism


class SecurityImage(msgspec.Struct, frozen=True):
    scram: Mapping[tuple[ScramMechanism, str], ScramCredential] = {}  # by mechanism and user
    acls: frozenset[Acl] = frozenset()
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}  # none is empty

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.scram.get((mechanism, user))


class SecurityDraft:
    """A mutable copy while records are applied."""

    def __init__(self, image: SecurityImage) -> None:
        self._scram = dict(image.scram)
        self._acls = image.acls
        self._quotas = dict(image.quotas)
        # Copied with the first change: there may be ten thousand.
        self._changing: set[Acl] | None = None

    def finish(self) -> SecurityImage:
        acls = self._acls if self._changing is None else frozenset(self._changing)
        return SecurityImage(self._scram, acls, self._quotas)

    def apply(self, record: SecurityRecord) -> None:
        match record:
            case ScramCredentialChanged(user, mechanism, iterations, salt, stored_key, server_key):
                self._scram[_mechanism(mechanism), user] = ScramCredential(
                    salt, stored_key, server_key, iterations
                )
            case ScramCredentialRemoved(user, mechanism):
                self._scram.pop((_mechanism(mechanism), user), None)
            case AclAdded():
                self._acl_set().add(_acl_of(record))
            case AclRemoved():
                self._acl_set().discard(_acl_of(record))
            case ClientQuotaChanged(entity, changes):
                self._change_quota(entity, changes)

    def _acl_set(self) -> set[Acl]:
        if self._changing is None:
            self._changing = set(self._acls)
        return self._changing

    def _change_quota(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        limits = dict(self._quotas.pop(entity, {}))
        for key, value in changes.items():
            if value is None:
                limits.pop(key, None)
            else:
                limits[key] = value
        if limits:
            self._quotas[entity] = limits


def _mechanism(name: str) -> ScramMechanism:
    return ScramMechanism[name.replace("-", "_")]


def _acl_of(record: AclAdded | AclRemoved) -> Acl:
    return Acl(
        ResourceType[record.resource_type],
        record.resource_name,
        PatternType[record.pattern_type],
        record.principal,
        record.host,
        Operation[record.operation],
        Permission[record.permission],
    )


# --- decisions ----------------------------------------------------------------------------------------------


def change_credential(
    user: str, mechanism: ScramMechanism, credential: ScramCredential
) -> list[MetadataRecord]:
    return [
        ScramCredentialChanged(
            user,
            mechanism.sasl_name,
            credential.iterations,
            credential.salt,
            credential.stored_key,
            credential.server_key,
        )
    ]


def remove_credential(security: SecurityImage, user: str, mechanism: ScramMechanism) -> list[MetadataRecord]:
    if (mechanism, user) not in security.scram:
        raise TidelogError(
            "Attempt to delete a user credential that does not exist", ErrorCode.RESOURCE_NOT_FOUND
        )
    return [ScramCredentialRemoved(user, mechanism.sasl_name)]


def add_acls(security: SecurityImage, acls: Iterable[Acl]) -> list[MetadataRecord]:
    """Those that are new. Adding a rule twice has no effect."""
    return [AclAdded(*_fields(acl)) for acl in dict.fromkeys(acls) if acl not in security.acls]


def remove_acls(security: SecurityImage, wanted: AclFilter) -> tuple[list[Acl], list[MetadataRecord]]:
    """The rules that a filter selects, and their removal."""
    selected = select(security.acls, wanted)
    return selected, [AclRemoved(*_fields(acl)) for acl in selected]


def _fields(acl: Acl) -> tuple[str, str, str, str, str, str, str]:
    return (
        acl.resource_type.name,
        acl.resource_name,
        acl.pattern_type.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    )


def change_quota(
    security: SecurityImage, entity: QuotaEntity, changes: Mapping[str, float | None]
) -> Sequence[MetadataRecord]:
    """None removes a limit; removing one that is not set has no effect."""
    current = security.quotas.get(entity, {})
    effective = {key: value for key, value in changes.items() if current.get(key) != value}
    return [ClientQuotaChanged(entity, effective)] if effective else []
