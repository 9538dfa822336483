"""``tidelog acl``: list, add, remove."""

from typing import Annotated, Any

import typer

from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.consent import consent
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from tidelog.cli.tables import count, print_json, print_table
from tidelog.errors import ErrorCode
from tidelog.security.acls import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
COLUMNS = ("permission", "principal", "host", "operation", "resource", "name")

app = typer.Typer(no_args_is_help=True, help="List, add and remove access rules (ACLs).")

Topic = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="A topic; NAME* for a prefix, '*' for all.")
]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group, in the same way.")]
TransactionalId = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id, in the same way."),
]
Cluster = Annotated[bool, typer.Option("--cluster", metavar="", help="The cluster as a whole.")]
Operations = Annotated[
    list[str],
    typer.Option(
        "--operation",
        metavar="OPERATION",
        help="read, write, create, delete, alter, describe, describe-configs, alter-configs, "
        "cluster-action, idempotent-write or all; may be repeated.",
    ),
]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Only from this address.")]
Principal = Annotated[
    str | None, typer.Option("--principal", metavar="USER", help="Only of this principal, as User:alice.")
]


@app.command("list")
def list_(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    principal: Principal = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List access rules.

    With a name, the rules that apply to it: also those of prefixes and of '*'.

    Example: tidelog acl list --topic orders
    """
    resource = _resource(topic, group, transactional_id, cluster)
    with ClusterClient(bootstrap) as client:
        response = client.ask(None, DESCRIBE_ACLS, _filter(resource, principal, None, None, None))
    _check(response.error_code, response.error_message, "the rules cannot be listed")
    rows = [
        _row(each.resource_type, each.resource_name, each.pattern_type, acl)
        for each in response.resources
        for acl in each.acls
    ]
    if json:
        print_json(rows)
    elif rows:
        print_table(rows, dict(zip(COLUMNS, COLUMNS, strict=True)))
    else:
        print("No such rules.")


@app.command("add")
def add(
    allow: Annotated[
        str | None, typer.Option("--allow", metavar="USER", help="Who may: alice, User:alice, or '*'.")
    ] = None,
    deny: Annotated[str | None, typer.Option("--deny", metavar="USER", help="Who may not.")] = None,
    operations: Operations = [],  # noqa: B006 — typer reads the default and never changes it
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    host: Host = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Add access rules: one for each operation.

    A rule that denies wins over all that allow. Who may read or write may describe, too.

    Example: tidelog acl add --allow alice --operation read --topic 'orders*'
    """
    if (allow is None) == (deny is None):
        raise InvalidCommandLine("Say who may with --allow, or who may not with --deny.")
    resource = _resource(topic, group, transactional_id, cluster)
    if resource is None or not operations:
        raise InvalidCommandLine(
            "A rule needs an --operation, and one of --topic, --group, --transactional-id and --cluster."
        )
    kind, name, pattern = resource
    creations = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": _principal(allow or deny or ""),
            "host": host or WILDCARD,
            "operation": _operation(each),
            "permission_type": Permission.DENY if allow is None else Permission.ALLOW,
        }
        for each in operations
    ]
    with ClusterClient(bootstrap) as client:
        response = client.ask(None, CREATE_ACLS, {"creations": creations})
    for result in response.results:
        _check(result.error_code, result.error_message, "the rule is not added")
    print(f"Added {count(len(creations), 'rule')}.")


@app.command("remove")
def remove(
    principal: Principal = None,
    operations: Operations = [],  # noqa: B006 — typer reads the default and never changes it
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    host: Host = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove the rules to which everything that is given applies.

    A name stands for itself here: --topic 'orders*' removes rules of this prefix, not of topic orders1.

    Example: tidelog acl remove --principal User:alice --topic 'orders*'
    """
    resource = _resource(topic, group, transactional_id, cluster)
    whom = None if principal is None else _principal(principal)
    if resource is None and whom is None:
        raise InvalidCommandLine("Say whose rules with --principal, or of which resource.")
    wanted: list[Operation | None] = [_operation(word) for word in operations]
    filters = [_filter(resource, whom, host, each, resource and resource[2]) for each in wanted or [None]]
    with ClusterClient(bootstrap) as client:
        found = [client.ask(None, DESCRIBE_ACLS, each) for each in filters]
        for each in found:
            _check(each.error_code, each.error_message, "the rules cannot be listed")
        number = sum(len(resource.acls) for each in found for resource in each.resources)
        if not number:
            raise CommandFailed("There are no such rules.")
        consent(f"{count(number, 'rule').capitalize()} would be removed.", yes=yes)
        response = client.ask(None, DELETE_ACLS, {"filters": filters})
    for result in response.filter_results:
        _check(result.error_code, result.error_message, "the rules are not removed")
    removed = sum(len(result.matching_acls) for result in response.filter_results)
    print(f"Removed {count(removed, 'rule')}.")


_Resource = tuple[ResourceType, str, PatternType]


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> _Resource | None:
    given = [
        (kind, name)
        for kind, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.GROUP, group),
            (ResourceType.TRANSACTIONAL_ID, transactional_id),
            (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(given) > 1:
        raise InvalidCommandLine("One resource at a time, please.")
    if not given:
        return None
    kind, name = given[0]
    if name != WILDCARD and name.endswith(WILDCARD):
        return kind, name.removesuffix(WILDCARD), PatternType.PREFIXED
    return kind, name, PatternType.LITERAL


def _filter(
    resource: _Resource | None,
    principal: str | None,
    host: str | None,
    operation: Operation | None,
    pattern: PatternType | None,
) -> dict[str, Any]:
    """``pattern``: of the rules themselves; None for every pattern that contains the name."""
    kind, name, written = resource or (ResourceType.ANY, None, None)
    wanted = pattern or (PatternType.MATCH if written is PatternType.LITERAL else written)
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": wanted or PatternType.ANY,
        "principal_filter": None if principal is None else _principal(principal),
        "host_filter": host,
        "operation": operation or Operation.ANY,
        "permission_type": Permission.ANY,
    }


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"


def _operation(word: str) -> Operation:
    try:
        operation = Operation[word.upper().replace("-", "_")]
    except KeyError:
        operation = Operation.ANY
    if operation is Operation.ANY:
        raise InvalidCommandLine(f"There is no operation '{word}'.")
    return operation


def _row(kind: int, name: str, pattern: int, acl: Any) -> dict[str, Any]:
    return {
        "permission": Permission(acl.permission_type).name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name.lower().replace("_", "-"),
        "resource": ResourceType(kind).name.lower().replace("_", "-"),
        "name": f"{name}{WILDCARD}" if pattern == PatternType.PREFIXED else name,
    }


def _check(code: int, message: str | None, what: str) -> None:
    if code:
        name = ErrorCode(code).name
        hint = ""
        if code == ErrorCode.SECURITY_DISABLED:
            hint = " Set authorizer.class.name on every node first."
        raise CommandFailed(f"{what[0].upper()}{what[1:]}: {message or name}.{hint}", name)
