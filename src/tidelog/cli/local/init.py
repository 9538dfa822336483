"""``tidelog broker init``: a commented ``broker.toml`` for one machine of a cluster, and its systemd unit.

Text out, nothing else: nothing is started, and no existing file is overwritten.
"""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import flag
from tidelog.client.settings import parse_bootstrap
from tidelog.config import BrokerConfig, read_toml
from tidelog.errors import InvalidConfig

FILES_MAX = 1_000_000
STOP_S = 60


def config_text(node: int, address: str, voters: str, http_port: int, data: str) -> str:
    host, _, port = address.rpartition(":")
    return f"""\
# Settings of one broker. Names and meanings are Kafka's; docs/configuration.md lists all of them.

# Unique in the cluster.
"node.id" = {node}

# Where it listens, and the address under which clients and other brokers reach it.
"listeners" = "PLAINTEXT://0.0.0.0:{port}"
"advertised.listeners" = "PLAINTEXT://{host}:{port}"

# Every client that reaches this address can use the cluster, and nothing is encrypted. docs/security.md says
# how to change that. Without this line, a broker refuses to listen where other machines reach it.
"allow.insecure.listeners" = true

# The controllers of a new cluster, the same on all machines. Three tolerate one failure, five tolerate two.
"controller.quorum.voters" = "{voters}"

# Where the records are. A relative path starts at the directory of this file. One broker per disk.
"log.dir" = {json.dumps(data)}

# /metrics, /health, /ready and /live on this port; 0 is off.
"http.port" = {http_port}

# The machine's rack or zone: replicas of a partition go to different ones.
# "broker.rack" = "a"

# Safe defaults, here to be seen: three replicas, and two of them hold every acknowledged record.
"default.replication.factor" = 3
"min.insync.replicas" = 2

# Topics are created by `tidelog topic create`, not by a typing error of a client.
"auto.create.topics.enable" = false
"""


def unit_text(config: Path, user: str) -> str:
    program = shutil.which("tidelog") or f"{sys.executable} -m tidelog"
    return f"""\
[Unit]
Description=Tidelog broker
After=network-online.target
Wants=network-online.target

[Service]
# The start is complete when the broker serves clients. A new cluster needs a majority of its controllers
# for that, and a broker that lost power checks its logs first, so there is no limit.
Type=notify
TimeoutStartSec=infinity
User={user}
ExecStart={program} broker --config {shlex.quote(str(config))}
# SIGTERM hands over leadership before the broker stops.
KillSignal=SIGTERM
TimeoutStopSec={STOP_S}
Restart=on-failure
RestartSec=1
# A segment and its indexes are three files, and every connection is one.
LimitNOFILE={FILES_MAX}

[Install]
WantedBy=multi-user.target
"""


def init(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory for broker.toml and the unit.")
    ] = Path(),
    node: Annotated[
        int, typer.Option("--node-id", metavar="N", min=0, help="Id of this broker, unique in the cluster.")
    ] = 1,
    address: Annotated[
        str,
        typer.Option("--address", metavar="HOST:PORT", help="Address of this machine for all others."),
    ] = "127.0.0.1:9092",
    voters: Annotated[
        str | None,
        typer.Option(
            "--voters",
            metavar="ID@HOST:PORT,…",
            help="Controllers of a new cluster, the same on all machines; default: this broker alone.",
        ),
    ] = None,
    http_port: Annotated[
        int,
        typer.Option("--http-port", metavar="PORT", min=0, max=65535, help="For probes and metrics."),
    ] = 9644,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Directory of the records.")] = "data",
    user: Annotated[str, typer.Option("--user", help="User of the systemd unit.")] = "tidelog",
    force: Annotated[bool, flag("--yes", help="Overwrite existing files.")] = False,
) -> None:
    """Write a commented broker.toml and a systemd unit for one machine. Nothing is started.

    Example: tidelog broker init --node-id 1 --address a:9092 --voters 1@a:9092,2@b:9092,3@c:9092
    """
    _check_address(address)
    voters = voters or f"{node}@{address}"
    root = directory.expanduser().resolve()
    config, unit = root / "broker.toml", root / "tidelog.service"
    texts = {
        config: config_text(node, address, voters, http_port, data),
        unit: unit_text(config, user),
    }
    try:
        _check(texts[config], node, address, voters)
    except InvalidConfig as error:
        raise InvalidCommandLine(f"{error.message.rstrip('.')}. Nothing was written.") from None
    for path in texts:
        if path.exists() and not force:
            raise CommandFailed(f"{path} exists; pass --yes to overwrite it. Nothing was written.")
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.touch(mode=0o600)  # It may have passwords.
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{root} cannot be written: {error.strerror}.") from None
    print(f"Wrote {config} and {unit}. Start the broker with: tidelog broker --config {config}")


def _check(text: str, node: int, address: str, voters: str) -> None:
    """Before anything is written: whether a broker takes these settings, and whether they fit together."""
    config = BrokerConfig.parse(read_toml(text))
    for voter in config.controller_quorum_voters:
        if voter.node_id == node and str(voter) != f"{node}@{address}":
            raise InvalidConfig(
                f"--voters has {voter} for this node, and --address is {address}; they must be the same"
            )


def _check_address(address: str) -> None:
    try:
        [_] = parse_bootstrap(address)
    except ValueError as error:
        raise InvalidCommandLine(f"--address: {error}.") from None
