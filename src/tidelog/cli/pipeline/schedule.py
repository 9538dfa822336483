"""``tidelog pipeline schedule``: another pipeline command, run at an interval by systemd or cron."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import flag
from tidelog.cli.pipeline.units import Job, ScheduleError, cron_line, parse_when, service, timer

NOT_SCHEDULED = ("schedule", "indicators")
_PASSED_ON = ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "TIDELOG_BOOTSTRAP")


def schedule(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…",
            help="The command, such as: archive orders --to /data/orders.",
            show_default=False,
        ),
    ],
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Time between runs, such as '5 minutes'.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="HH:MM", help="Once a day, at this time of the machine's time zone."),
    ] = None,
    cron: Annotated[bool, flag("--cron", help="A line for cron instead of units for systemd.")] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the job.", show_default="from the command and its topic"
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Write the files there instead of printing them."),
    ] = None,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="The user of a system-wide systemd service.")
    ] = "",
) -> None:
    """Print or write a systemd timer, or a cron line, that runs a pipeline command again and again.

    Example: tidelog pipeline schedule --every '5 minutes' -- archive orders --to /data/orders
    """
    _check_command(context, words)
    try:
        when = parse_when(every, at)
        job = Job(name or _name(words), _command(words), str(Path.cwd()), _environment(), user)
        if cron:
            _deliver({job.name + ".cron": cron_line(job, when)}, directory)
            if directory is not None:
                print(_what_to_do_with_cron(job, directory))
            return
        files = {f"{job.name}.service": service(job), f"{job.name}.timer": timer(job, when)}
    except ScheduleError as error:
        raise InvalidCommandLine(str(error)) from None
    _deliver(files, directory)
    if directory is not None:
        print(_what_to_do(job, directory))


def _check_command(context: typer.Context, words: list[str]) -> None:
    """A mistake in the command would only show in the log of the first run."""
    group = context.parent.command if context.parent is not None else None
    known = {} if group is None else getattr(group, "commands", {})
    allowed = [one for one in known if one not in NOT_SCHEDULED]
    if words[0] not in allowed:
        raise InvalidCommandLine(
            f"There is nothing to schedule in {words[0]!r}; there are {', '.join(allowed)}."
        )
    if any(word == "--every" or word.startswith("--every=") for word in words):
        raise InvalidCommandLine("A scheduled command must end, so it takes no --every.")
    known[words[0]].make_context(f"tidelog pipeline {words[0]}", list(words[1:]))


def _command(words: list[str]) -> list[str]:
    """With the Python of this environment: a scheduler knows no activated one."""
    return [sys.executable, "-m", "tidelog", "pipeline", *words]


def _environment() -> dict[str, str]:
    """What this shell has set, and where Java is if the schedulers' short PATH does not have it."""
    passed = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    java = shutil.which("java")
    if (
        "JAVA_HOME" not in passed
        and java is not None
        and Path(java).parent not in (Path("/usr/bin"), Path("/bin"))
    ):
        passed["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
    return passed


def _name(words: list[str]) -> str:
    """``tidelog-archive-orders``."""
    about = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    stem = Path(about).stem if "/" in about or "." in about else about
    kept = "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in stem)
    ascii_only = kept.encode("ascii", "ignore").decode().strip("-")
    return "-".join(part for part in ("tidelog", words[0], ascii_only) if part)


def _deliver(files: dict[str, str], directory: Path | None) -> None:
    if directory is None:
        for name, text in files.items():
            print(f"# {name}\n{text}" if len(files) > 1 else text, end="")
            if len(files) > 1:
                print()
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)
            print(f"wrote {directory / name}")
    except OSError as error:
        raise CommandFailed(f"{directory} cannot be written: {error.strerror}.") from None


def _what_to_do(job: Job, directory: Path) -> str:
    where = shlex.quote(str(directory.resolve() / job.name))
    scope = "" if job.user else "--user "
    # Without this, systemd ends a user's timers when the user logs out.
    lingering = "" if job.user else "; so that it runs while you are logged out: loginctl enable-linger"
    return (
        f"start it with: systemctl {scope}link {where}.service {where}.timer && "
        f"systemctl {scope}enable --now {job.name}.timer{lingering}"
    )


def _what_to_do_with_cron(job: Job, directory: Path) -> str:
    file = shlex.quote(f"{directory.resolve() / job.name}.cron")
    return f"start it with: (crontab -l; cat {file}) | crontab -"
