"""The directory of an unattended hunt: what was run, what failed, and the sums, safe against ``kill -9``.

==================  ======================================================================================
``hunt.json``       what is run: the first seed, the modes, and a digest of the code; written once
``runs.jsonl``      one line for each finished run, appended; a torn last line is a run that is done again
``failures/``       ``MODE-SEED.txt``: the failure, the end of its trace, the command that repeats it
``stories/``        ``MODE-SEED.txt``: the shortest story that was found of it
``summary.json``    the totals, for people; computed from ``runs.jsonl``
==================  ======================================================================================

Files that are written once appear under their name only when they are whole.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tidelog.cli.failure import CommandFailed

if TYPE_CHECKING:
    from tidelog.sim.attempt import Outcome


class Report:
    def __init__(self, path: Path) -> None:
        self._path = path
        for directory in (path, path / "failures", path / "stories"):
            directory.mkdir(parents=True, exist_ok=True)
        self._lock = self._claim()
        self._runs: IO[bytes] | None = None

    def _claim(self) -> IO[bytes]:
        """The lock goes with the process, however it ends."""
        lock = (self._path / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandFailed(
                f"Another process writes to {self._path}; choose another directory."
            ) from error
        return lock

    def close(self) -> None:
        if self._runs is not None:
            self._runs.close()
        self._lock.close()

    def agree(self, hunt: Mapping[str, Any]) -> dict[str, Any]:
        """What this directory is about: as it began, or as asked for now. Sums over different code or modes
        would say nothing.
        """
        path = self._path / "hunt.json"
        asked = {**hunt, "code": code_digest()}
        if not path.exists():
            self._write(path, json.dumps(asked, indent=2) + "\n")
            return asked
        began: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in asked:
            if name != "first" and asked[name] != began.get(name):
                raise CommandFailed(
                    f"{self._path} was started with another {name}; choose another directory."
                )
        return began

    def finished(self) -> Iterator[tuple[int, "Outcome"]]:
        """Every run that is in the books, and then room for more."""
        from tidelog.sim.attempt import Outcome

        path = self._path / "runs.jsonl"
        whole = 0
        if path.exists():
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                number, *rest = json.loads(line)
                yield number, Outcome(*rest)
        self._runs = path.open("ab")
        self._runs.truncate(whole)

    def add(self, number: int, outcome: "Outcome", command: str) -> None:
        if self._runs is None:
            raise RuntimeError("what is finished must be read first")
        if outcome.failed:
            self._write(
                self._path / "failures" / _name(outcome), "\n".join(_failure(outcome, command)) + "\n"
            )
        kept = outcome[: outcome._fields.index("told")]  # No traces: there will be tens of thousands.
        self._runs.write(json.dumps([number, *kept]).encode() + b"\n")
        self._runs.flush()

    def lacks_story(self, outcome: "Outcome") -> bool:
        return not (self._path / "stories" / _name(outcome)).exists()

    def add_story(self, failure: "Outcome", lines: list[str]) -> None:
        self._write(self._path / "stories" / _name(failure), "\n".join(lines) + "\n")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self._write(self._path / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _write(self, path: Path, text: str) -> None:
        new = path.with_name(path.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)


def _name(outcome: "Outcome") -> str:
    return f"{outcome.mode}-{outcome.seed}.txt"


def _failure(outcome: "Outcome", command: str) -> list[str]:
    head = [f"{outcome.mode}, seed {outcome.seed}", f"repeat it with: {command}"]
    return [*head, "", *outcome.told, "", *outcome.trace, "", outcome.error]


def code_digest() -> str:
    """Of everything that the simulator runs: another command line does not matter."""
    import tidelog

    found = hashlib.sha256()
    root = Path(tidelog.__path__[0])
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("cli", "lab", "runtime", "spark", "testing"):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]
