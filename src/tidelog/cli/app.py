"""All commands under one name, and the one place where a failure turns into words and an exit code."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidelog.cli import client_config, modes
from tidelog.cli.acl import commands as acls
from tidelog.cli.cluster import commands as cluster
from tidelog.cli.cluster import drain
from tidelog.cli.config import commands as configs
from tidelog.cli.controller import commands as controllers
from tidelog.cli.debug import commands as debug
from tidelog.cli.demo.commands import demo
from tidelog.cli.failure import CommandFailed, complain
from tidelog.cli.group import commands as groups
from tidelog.cli.lab import commands as lab
from tidelog.cli.local import broker as broker_process
from tidelog.cli.local import certs, one_broker
from tidelog.cli.local import init as broker_init
from tidelog.cli.local.detached import down
from tidelog.cli.local.up import up
from tidelog.cli.log import dump as log_dump
from tidelog.cli.options import ClientConfigFile, Settings, flag
from tidelog.cli.page.commands import page
from tidelog.cli.pipeline import commands as pipeline
from tidelog.cli.plan import commands as plan
from tidelog.cli.profile import commands as profile
from tidelog.cli.records import consume, produce
from tidelog.cli.sim.command import sim
from tidelog.cli.topic import commands as topics
from tidelog.cli.txn import commands as txn
from tidelog.cli.user import commands as users
from tidelog.errors import TidelogError


class _Commands(TyperGroup):
    """Lists the commands as a newcomer meets them, and knows what a closed pipe means."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = [
            "up",
            "down",
            "page",
            "demo",
            "topic",
            "modes",
            "plan",
            "produce",
            "consume",
            "group",
            "txn",
            "cluster",
            "controller",
            "config",
            "user",
            "acl",
            "log",
            "debug",
            "profile",
            "pipeline",
            "lab",
            "sim",
            "broker",
            "certs",
            "version",
        ]
        return sorted(
            super().list_commands(ctx), key=lambda name: order.index(name) if name in order else len(order)
        )

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # The reader has closed the pipe (`| head`), which is no failure.
            _drop_output()
            return 0


app = typer.Typer(
    name="tidelog",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tidelog is a replicated message queue that speaks the Kafka protocol.\n\n"
    "First steps: `tidelog up` in one terminal; in another one "
    "`echo hello | tidelog produce greetings --create` and `tidelog consume greetings`. "
    "`tidelog COMMAND --help` explains each command.",
)


class _Misused(typer.TyperException):
    """A command that was not understood."""

    exit_code = 2

    def __init__(self, message: str, context: typer.Context) -> None:
        super().__init__(message)
        self.ctx = context


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _all_commands(
    _version: Annotated[
        bool, flag("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
    config: ClientConfigFile = None,  # Moved to the commands that connect.
) -> None:
    pass


broker_app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@broker_app.callback()
def broker(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="TOML file with the broker's settings.")
    ] = None,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
) -> None:
    """Run a broker in the foreground, or manage a running one.

    SIGTERM or Ctrl-C stops it cleanly. `tidelog up` is the easier way to start, and writes the config files.
    `tidelog broker stop` and `start` stop and start one of its brokers.

    Example: tidelog broker --config .tidelog/broker-1/broker.toml
    """
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise _Misused("Missing option '--config'", context)
    context.exit(broker_process.serve(broker_process.BrokerArguments(config, tuple(assignments))))


broker_app.command("init")(broker_init.init)
broker_app.command("stop")(one_broker.stop)
broker_app.command("start")(one_broker.start)
broker_app.command("drain")(drain.drain)
broker_app.command("unregister")(drain.unregister)
app.add_typer(broker_app, name="broker")
app.command("certs")(certs.certs)


@app.command("version")
def version() -> None:
    """Print the versions of Tidelog and Python."""
    import platform
    from importlib.metadata import version as version_of

    print(f"tidelog {version_of('tidelog')} (Python {platform.python_version()})")


app.command("up")(up)
app.command("down")(down)
app.command("page")(page)
app.command("demo")(demo)
app.add_typer(topics.app, name="topic")
app.command("modes")(modes.modes)
app.add_typer(plan.app, name="plan")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(groups.app, name="group")
app.add_typer(cluster.app, name="cluster")
app.add_typer(controllers.app, name="controller")
app.add_typer(txn.app, name="txn")
app.add_typer(configs.app, name="config")
app.add_typer(users.app, name="user")
app.add_typer(acls.app, name="acl")
app.add_typer(log_dump.app, name="log")
app.add_typer(debug.app, name="debug")
app.add_typer(profile.app, name="profile")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(lab.app, name="lab")
app.command("sim")(sim)


def run(words: Sequence[str]) -> int:
    """Parse and run; the exit code."""
    _open_streams()
    for word in words:
        if not _is_text(word):
            complain(f"{os.fsencode(word)!r} is not UTF-8 text.")
            return 2
    client_config.choose(None)  # An earlier command of this process may have chosen one,
    client_config.name_bootstrap(None)  # or named addresses.
    try:
        code = command_line().main(list(words), prog_name="tidelog", standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message():  # Without words: a group without a command has just printed its help.
            complain(_sentence(error))
        return error.exit_code
    except CommandFailed as error:
        complain(str(error))
        return error.exit_code
    except TidelogError as error:
        complain(str(error))
        return 1
    except OSError as error:
        _keep_output_whole()
        complain(_in_words(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    return code if isinstance(code, int) else 0


def _keep_output_whole() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Nothing may be left for Python to write as it closes stdout: it would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_words(error: OSError) -> str:
    """Most often of a full disk. Where the output goes to a file on it, no name is known."""
    where = "Reading or writing failed" if error.filename is None else error.filename
    return f"{where}: {error.strerror or error}."


def _is_text(word: str) -> bool:
    """Bytes of the command line that are not: the client library would not survive them."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_streams() -> None:
    """A service manager may start us without some of them; Python then has None in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 — as long as the process


def command_line() -> Any:
    """The parser of all commands."""
    command = typer.main.get_command(app)
    (config,) = (each for each in command.params if each.name == "config")
    command.params.remove(config)
    _take_client_config(command, config)
    _show_help_plainly(command, None)
    return command


def _take_client_config(command: Any, option: Any) -> None:
    """--config wherever there is --bootstrap: how to connect belongs to the addresses."""
    names = [each.name for each in command.params]
    if "bootstrap" in names and "config" not in names:
        command.params.insert(names.index("bootstrap") + 1, option)
    for one in getattr(command, "commands", {}).values():
        _take_client_config(one, option)


def _show_help_plainly(command: Any, parent: Any) -> None:
    """Help pages show the type of a value that --help does not have; see :func:`tidelog.cli.options.flag`."""
    context = command.context_class(command, parent=parent, **command.context_settings)
    command.get_help_option(context).metavar = ""
    for option in command.params:
        if option.name in ("install_completion", "show_completion"):
            option.metavar = ""
    for one in getattr(command, "commands", {}).values():
        _show_help_plainly(one, context)


def _sentence(error: typer.TyperException) -> str:
    sentence = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "tidelog"
    joint = "" if sentence.endswith("?") else ";"
    return f"{sentence}{joint} `{command} --help` explains."
