"""Texts for schedulers: a systemd service with its timer, and a line for cron. Text out, nothing else.

Owns their rules of quoting. A job does not lock anything here: two runs of an archive exclude each other by
themselves, and systemd starts no second run of a service anyway.

========== ===============================================================================================
systemd    words in double quotes; ``%`` begins a specifier, ``$`` a variable, ``\\`` an escape
cron       a shell reads the line, so words are quoted for the shell; an unescaped ``%`` ends the command
========== ===============================================================================================
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_UNITS_S = {
    "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400,
    "day": 86_400,
}  # fmt: skip
_TIME = re.compile(r"(\d+)\s*([a-z]+?)s?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NAME = re.compile(r"[A-Za-z0-9:_.-]+")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class ScheduleError(ValueError):
    """What cannot be scheduled, in one sentence."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command that is run again and again."""

    name: str  # of the units
    words: Sequence[str]  # the command, its program as an absolute path
    directory: str  # in which it runs
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""  # of a system service; empty: the one that the scheduler belongs to

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ScheduleError(f"The name {self.name!r} is not possible; allowed: letters, digits and :_.-")
        for text in (*self.words, self.directory, *self.environment.values()):
            if "\n" in text or "\0" in text:
                raise ScheduleError(f"{text!r} has a line break, which no scheduler takes.")


@dataclass(frozen=True, slots=True)
class When:
    """At an interval, or once a day (UTC for neither: both schedulers go by the machine's time zone)."""

    every_s: int = 0
    at: tuple[int, int] | None = None  # hour and minute


def parse_when(every: str | None, at: str | None) -> When:
    """``5 minutes``, ``1h``; or ``03:30``."""
    if (every is None) == (at is None):
        raise ScheduleError("Give --every, such as '5 minutes', or --at, such as 03:30.")
    if at is not None:
        clock = _CLOCK.fullmatch(at.strip())
        if clock is None:
            raise ScheduleError(f"--at {at} is no time of day; allowed: 00:00 to 23:59.")
        return When(at=(int(clock[1]), int(clock[2])))
    found = _TIME.fullmatch((every or "").strip().lower())
    if found is None or found[2] not in _UNITS_S or int(found[1]) == 0:
        raise ScheduleError(f"--every {every} is no time; allowed: such as '30 seconds', 5m, 1h or '1 day'.")
    return When(int(found[1]) * _UNITS_S[found[2]])


# -- systemd -------------------------------------------------------------------------------------


def service(job: Job) -> str:
    lines = [
        "[Unit]",
        f"Description={_described(job)}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=oneshot",
        f"WorkingDirectory={_specifiers(job.directory)}",
        *(f"Environment={_systemd_word(f'{name}={value}')}" for name, value in job.environment.items()),
        *([f"User={job.user}"] if job.user else []),
        f"ExecStart={' '.join(_systemd_word(word, is_command=True) for word in job.words)}",
        "# A stop is asked of the pipeline, which ends its Java process itself.",
        "KillMode=mixed",
        "TimeoutStopSec=120",
    ]
    return "\n".join(lines) + "\n"


def timer(job: Job, when: When) -> str:
    lines = ["[Unit]", f"Description={_described(job)}", "", "[Timer]"]
    if when.at is not None:
        # A run that was due while the machine was off is made up for.
        lines += [f"OnCalendar=*-*-* {when.at[0]:02}:{when.at[1]:02}:00", "Persistent=true"]
    else:
        lines += ["OnActiveSec=0", f"OnUnitInactiveSec={when.every_s}", "AccuracySec=1"]
    return "\n".join([*lines, "", "[Install]", "WantedBy=timers.target"]) + "\n"


def _described(job: Job) -> str:
    return _specifiers(f"tidelog: {job.name}")


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _systemd_word(word: str, *, is_command: bool = False) -> str:
    escaped = _specifiers(word)
    if is_command:
        escaped = escaped.replace("$", "$$")
    if _PLAIN.fullmatch(escaped):
        return escaped
    quoted = escaped.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{quoted}"'


# -- cron ----------------------------------------------------------------------------------------


def cron_line(job: Job, when: When) -> str:
    """For ``crontab -e``; cron mails what the command prints, so output goes to the system's log."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in job.environment.items()]
    command = " ".join([*settings, *(shlex.quote(word) for word in job.words)])
    line = f"cd {shlex.quote(job.directory)} && {command} 2>&1 | logger -t {shlex.quote(job.name)}"
    return f"{_cron_fields(when)} {line.replace('%', chr(92) + '%')}\n"


def _cron_fields(when: When) -> str:
    if when.at is not None:
        return f"{when.at[1]} {when.at[0]} * * *"
    every = when.every_s
    if every == DAY_S:
        return "0 0 * * *"
    for unit, count, form in ((MINUTE_S, 60, "{} * * * *"), (HOUR_S, 24, "0 {} * * *")):
        times, rest = divmod(every, unit)
        if rest == 0 and 0 < times < count and count % times == 0:
            return form.format("*" if times == 1 else f"*/{times}")
    raise ScheduleError(
        f"cron cannot run something every {every} seconds; allowed: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 "
        "minutes, 1, 2, 3, 4, 6, 8 or 12 hours, or 1 day; without --cron, a systemd timer allows any time."
    )
