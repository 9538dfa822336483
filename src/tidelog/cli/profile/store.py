"""Names for clusters, in a file of the user: ``~/.config/tidelog/profiles.json``.

A profile has addresses, and may have the path of a file with the security of connections. Passwords are in
that file, not here.
"""

import json
import os
from pathlib import Path
from typing import Any

from tidelog.cli.failure import CommandFailed
from tidelog.client.settings import parse_bootstrap

VARIABLE = "TIDELOG_PROFILE"


def path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "tidelog" / "profiles.json"


def read() -> dict[str, Any]:
    """``active``: the name of a profile or None; ``profiles``: name → bootstrap; ``configs``: name → file of
    those that have one.
    """
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
        profiles = {str(name): str(bootstrap) for name, bootstrap in found["profiles"].items()}
        configs = {str(name): str(config) for name, config in found.get("configs", {}).items()}
        for bootstrap in profiles.values():
            parse_bootstrap(bootstrap)
        active = found.get("active")
        return {"active": None if active is None else str(active), "profiles": profiles, "configs": configs}
    except FileNotFoundError:
        return {"active": None, "profiles": {}, "configs": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandFailed(f"{path()} cannot be read: {error}. Correct or remove it.") from None


def write(state: dict[str, Any]) -> None:
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        part = path().with_suffix(".part")
        part.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        part.replace(path())
    except OSError as error:
        raise CommandFailed(f"{path()} cannot be written: {error.strerror}.") from None


def active_name() -> str | None:
    return _active()[1]


def active_bootstrap() -> str | None:
    """Of the profile that the variable names, or that was chosen; None: there is none."""
    state, name = _active()
    return None if name is None else str(state["profiles"][name])


def active_config() -> str | None:
    """The file of the same profile, empty if it has none; None: there is no profile."""
    state, name = _active()
    return None if name is None else str(state["configs"].get(name, ""))


def _active() -> tuple[dict[str, Any], str | None]:
    named = os.environ.get(VARIABLE)
    if named is None and not path().exists():
        return {}, None
    state = read()
    name = named or state["active"]
    if name is not None and name not in state["profiles"]:
        raise CommandFailed(f"There is no profile '{name}'; `tidelog profile list` shows the existing ones.")
    return state, name
