"""``tidelog debug bundle``: the state of a cluster in one file, without records.

Every part is optional: what cannot be had is named in the bundle, with the reason. Values of settings that
may be secrets are left out.
"""

import io
import json
import os
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import client_config
from tidelog.cli.client import connect_admin
from tidelog.cli.cluster import report
from tidelog.cli.cluster.health import as_json, survey
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin as setting_admin
from tidelog.cli.failure import CommandFailed
from tidelog.cli.nearby import addresses_in
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from tidelog.cli.reach import USUAL_DIRECTORY, addresses_of
from tidelog.cli.settings import render_settings
from tidelog.cli.tables import count
from tidelog.cli.topic import admin as topic_admin
from tidelog.config import read_toml

app = typer.Typer(no_args_is_help=True, help="Collect what is needed to look into a problem.")

LOG_BYTES_MAX = 1 << 20  # the end of each log
SECRET_WORDS = ("password", "secret", "key", "jaas")
_TOKEN = re.compile(r"(#token=)[\w-]+")

Part = Callable[[], str]


@app.command("bundle")
def bundle(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: tidelog-bundle-TIME.tar.gz."),
    ] = None,
    directory: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Directory of `tidelog up`, for its logs; without --bootstrap, also for its brokers.",
        ),
    ] = USUAL_DIRECTORY,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write the state of the cluster and the ends of local broker logs to one file. It contains no records.

    Works with any number of brokers, none included; what is missing is named in errors.txt.

    Example: tidelog debug bundle -o /tmp/bundle.tar.gz
    """
    path = output or Path(f"tidelog-bundle-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    files, errors = collect(_bootstrap_of(directory, bootstrap), directory)
    part = path.with_name(f"{path.name}.part")
    try:
        try:
            _write(part, files)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)  # Interrupted, or the disk is full.
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
    missing = f"; {count(len(errors), 'part')} missing, see errors.txt in it" if errors else ""
    print(f"Wrote {path} with {count(len(files), 'file')}{missing}. It contains no records.")


def _write(path: Path, files: dict[str, str]) -> None:
    # Settings and logs are for whom the user gives them to.
    with (
        open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):
        for name, text in files.items():
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"tidelog-bundle/{name}")
            entry.size, entry.mtime = len(content), int(time.time())
            archive.addfile(entry, io.BytesIO(content))


def _bootstrap_of(directory: Path, bootstrap: str) -> str:
    """The logs and the state are of one cluster: that of the directory, if one was named and no addresses."""
    addresses = ",".join(map(str, addresses_in(directory)))
    if directory == USUAL_DIRECTORY or client_config.is_given(bootstrap) or not addresses:
        return bootstrap
    client_config.choose_of(directory)
    client_config.name_bootstrap(addresses)
    return addresses


def collect(bootstrap: str, directory: Path) -> tuple[dict[str, str], list[str]]:
    """File names and their contents; and what is missing."""
    files: dict[str, str] = {}
    errors = []
    with ExitStack() as stack:

        @cache  # It knows which brokers do not answer, and does not wait for them again.
        def client() -> ClusterClient:
            return stack.enter_context(ClusterClient(bootstrap))

        parts: dict[str, Part] = {
            "versions.txt": _versions,
            "health.json": lambda: _json(as_json(survey(client()))),
            "cluster.json": lambda: _json(report.describe(client())),
            "topics.json": lambda: _json(topic_admin.list_topics(connect_admin(bootstrap), internal=True)),
            "settings.json": lambda: _settings(client()),
        }
        parts |= dict(_local(directory))
        for name, part in parts.items():
            try:
                files[name] = part()
            except Exception as error:  # The rest is still worth having.
                errors.append(f"{name}: {error}")
    files["bootstrap.txt"] = "\n".join(map(str, addresses_of(bootstrap))) + "\n"
    if errors:
        files["errors.txt"] = "\n".join(errors) + "\n"
    return files, errors


def _versions() -> str:
    return f"tidelog {version('tidelog')}\nPython {platform.python_version()}\n{platform.platform()}\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _settings(client: ClusterClient) -> str:
    there = survey(client)
    away = there.down | there.silent
    up = [each for each in there.cluster.brokers.values() if each.broker not in away]
    found = setting_admin.read_brokers(client, up)
    return _json({name: [_without_secret(each) for each in settings] for name, settings in found.items()})


def _without_secret(setting: dict[str, Any]) -> dict[str, Any]:
    return setting | {"value": "…"} if _is_secret(setting["name"]) else setting


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_WORDS)


def _local(directory: Path) -> Iterator[tuple[str, Part]]:
    for path in sorted([*directory.glob("broker-*/broker.log"), *directory.glob("up.log")]):
        yield f"local/{path.relative_to(directory)}", partial(_end, path)
    for path in sorted(directory.glob("broker-*/broker.toml")):
        yield f"local/{path.relative_to(directory)}", partial(_config, path)


def _end(path: Path) -> str:
    with path.open("rb") as file:
        with suppress(OSError):
            file.seek(-LOG_BYTES_MAX, io.SEEK_END)
        # With the token of the page, anyone on this machine can change the cluster.
        return _TOKEN.sub(r"\1…", file.read().decode(errors="replace"))


def _config(path: Path) -> str:
    """Without its comments, which may have old values."""
    settings = read_toml(path.read_text(encoding="utf-8"))
    return render_settings({name: "…" if _is_secret(name) else value for name, value in settings.items()})
