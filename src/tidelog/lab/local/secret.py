"""The secret of a cluster on this machine: a file beside the directories of its brokers."""

import os
import secrets
from pathlib import Path

NAME = "cluster.secret"
SETTING = "cluster.secret.file"


def make_secret(path: Path) -> None:
    """Write a new secret there, for its owner only, unless there is one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # Not replaced: a secret that another process has just written is in use.
        if not path.exists():
            os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)
