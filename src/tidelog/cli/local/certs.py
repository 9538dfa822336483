"""``tidelog certs``: a small authority, and certificates for the brokers and clients of a test cluster."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import flag
from tidelog.errors import TidelogError
from tidelog.lab.local.certificates import DAYS, LOCAL_HOSTS, Authority

BROKERS = 3


def certs(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where the files are, or will be.")
    ] = Path("tls"),
    brokers: Annotated[
        list[str],
        typer.Option(
            "--broker",
            metavar="NAME=HOST,…",
            help="A broker's certificate, for these names and addresses. Without any: three brokers on this "
            "machine.",
        ),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    clients: Annotated[
        list[str], typer.Option("--client", metavar="NAME", help="A client's certificate.")
    ] = [],  # noqa: B006
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=3650, help="How long they are valid.")
    ] = DAYS,
    password: Annotated[
        str,
        typer.Option(
            "--password",
            metavar="TEXT",
            help="Write PKCS12 files, too, for Java. Take one that protects nothing else: it is visible in "
            "the list of processes.",
        ),
    ] = "",
    force: Annotated[bool, flag("--yes", help="Replace certificates that exist.")] = False,
) -> None:
    """Make a certificate authority and certificates for a test cluster.

    The authority stays: another call with the same directory adds certificates that the first ones trust. Its
    key lies in the same directory without a password, so it is not for production.

    Example: tidelog certs --dir tls --broker broker-1=10.0.0.11,kafka1.example.org --client alice
    """
    wanted = [_parsed(text) for text in brokers]
    wanted += [(name, ()) for name in clients]
    if not wanted:
        wanted = [(f"broker-{number}", LOCAL_HOSTS) for number in range(1, BROKERS + 1)]
    root = directory.expanduser().resolve()
    _check_names(root, [name for name, _ in wanted], force=force)
    try:
        authority = Authority(root)
        for name, hosts in wanted:
            issued = authority.issue(name, hosts, days=days, password=password)
            print(f"{issued.pem}: {', '.join(hosts) if hosts else 'client'}")
        if password:
            authority.trust_store(password)
    except OSError as error:
        raise CommandFailed(f"{root} cannot be written: {error.strerror}.") from None
    except TidelogError as error:
        raise CommandFailed(f"{error.message}.") from None
    print(f"They are trusted by those who trust {authority.certificate_path}.")


def _parsed(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, hosts = text.partition("=")
    split = tuple(host for host in (each.strip() for each in hosts.split(",")) if host)
    if not name or not equals or not split:
        raise InvalidCommandLine(f"--broker {text!r} is not NAME=HOST,…, such as broker-1=10.0.0.11.")
    return name, split


def _check_names(root: Path, names: list[str], *, force: bool) -> None:
    for name in names:
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
            raise InvalidCommandLine(f"{name!r} is no name: use letters, digits, dots, dashes, underscores.")
        if name == "ca":
            raise InvalidCommandLine("'ca' is the name of the authority.")
        if (root / f"{name}.pem").exists() and not force:
            raise CommandFailed(f"{root / name}.pem exists; pass --yes to replace it. Nothing was written.")
