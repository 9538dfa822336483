"""``tidelog user``: list, set, delete. Passwords are hashed here: no broker sees them."""

import getpass
import hashlib
import secrets
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import print_json, print_table
from tidelog.errors import ErrorCode
from tidelog.security.scram import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES, ScramMechanism

DESCRIBE_USERS, ALTER_USERS = 50, 51

app = typer.Typer(no_args_is_help=True, help="List, set and delete users and their passwords.")


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.", show_default=False)]
Mechanisms = Annotated[
    list[Mechanism],
    typer.Option("--mechanism", help="Only for this mechanism; may be repeated.", show_default="both"),
]


@app.command("list")
def list_(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the users that have a password, and for which mechanisms.

    Example: tidelog user list
    """
    with ClusterClient(bootstrap) as client:
        response = client.ask(None, DESCRIBE_USERS, {"users": None})
    _check(response.error_code, response.error_message, "the users cannot be listed")
    rows = [
        {
            "user": each.user,
            "mechanism": ScramMechanism(info.mechanism).sasl_name,
            "iterations": info.iterations,
        }
        for each in response.results
        for info in each.credential_infos
    ]
    if json:
        print_json(rows)
    elif rows:
        titles = {"user": "user", "mechanism": "mechanism", "iterations": "iterations"}
        print_table(rows, titles, right=("iterations",))
    else:
        print("No users.")


@app.command("set")
def set_(
    user: User,
    mechanisms: Mechanisms = [],  # noqa: B006 — typer reads the default and never changes it
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            min=ITERATIONS_MIN,
            max=ITERATIONS_MAX,
            help="Rounds of hashing: more make a stolen hash harder to use, and logins slower.",
        ),
    ] = ITERATIONS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a user, or change the password of one.

    The password is read from the terminal without showing it, or from standard input. Others
    could see it on a command line.

    Example: tidelog user set alice < password.txt
    """
    password = _password()
    changes = [
        _salted(user, ScramMechanism.of(each.value), password, iterations)
        for each in mechanisms or list(Mechanism)
    ]
    _alter(bootstrap, {"deletions": [], "upsertions": changes}, f"the password of '{user}' is not set")
    print(f"The password of '{user}' is set.")


@app.command("delete")
def delete(
    user: User,
    mechanisms: Mechanisms = [],  # noqa: B006 — typer reads the default and never changes it
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a user's password. Open connections end at their next authentication; rules stay.

    Example: tidelog user delete alice
    """
    with ClusterClient(bootstrap) as client:
        (found,) = client.ask(None, DESCRIBE_USERS, {"users": [{"name": user}]}).results
    _check(found.error_code, found.error_message, f"'{user}' is not deleted")
    wanted = {ScramMechanism.of(each.value) for each in mechanisms or list(Mechanism)}
    known = [info.mechanism for info in found.credential_infos if info.mechanism in wanted]
    if not known:
        raise CommandFailed(f"'{user}' has no password for that mechanism.")
    deletions = [{"name": user, "mechanism": each} for each in known]
    _alter(bootstrap, {"deletions": deletions, "upsertions": []}, f"'{user}' is not deleted")
    print(f"'{user}' is deleted.")


def _password() -> str:
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise InvalidCommandLine("The two passwords differ.")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InvalidCommandLine("The password is empty.")
    return password


def _salted(user: str, mechanism: ScramMechanism | None, password: str, iterations: int) -> dict[str, Any]:
    if mechanism is None:
        raise InvalidCommandLine("There is no such mechanism.")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted,
    }


def _alter(bootstrap: str, body: dict[str, Any], what: str) -> None:
    with ClusterClient(bootstrap) as client:
        (result,) = client.ask(None, ALTER_USERS, body).results
    _check(result.error_code, result.error_message, what)


def _check(code: int, message: str | None, what: str) -> None:
    if code:
        name = ErrorCode(code).name
        raise CommandFailed(f"{what[0].upper()}{what[1:]}: {message or name}.", name)
