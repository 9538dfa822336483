"""A real disk after a power failure of the lab is the simulated disk after one of the simulator."""

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.lab.faults.rollback import lose_power
from tidelog.log.storage import Storage
from tidelog.runtime.hooks.control import Control
from tidelog.runtime.hooks.disk import HookedDisk, hooked_disk
from tidelog.sim.disk import SimulatedDisk

NAMES = ("a", "b", "c")
DIRECTORIES = ("", "p", "q", "p-deleted")
STEPS = [
    "write",
    "write",
    "write",
    "truncate",
    "reserve",
    "map",
    "sync",
    "sync",
    "sync-directory",
    "sync-directory",
    "create",
    "create",
    "mkdir",
    "rename",
    "rename-directory",
    "remove",
    "rmdir",
    "fail-sync",
    "restart",
]


class Both:
    """The same operations on both disks. Their answers and their contents must agree."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.data, self.hooks = directory / "data", directory / "lab"
        self.data.mkdir()
        (self.hooks / "journal").mkdir(parents=True)
        self.control = Control.create(self.hooks)
        self.simulated = SimulatedDisk()
        self.real = self.new_process()
        self.random = random.Random(seed)
        self.story: list[str] = []
        # A log syncs the new name of a directory before it goes on inside of it.
        self.is_moved = False

    def new_process(self) -> HookedDisk:
        return hooked_disk(self.hooks, self.control, str(self.data))

    def path(self, name: str) -> str:
        return str(self.data / name) if name else str(self.data)

    def step(self) -> None:
        kind = self.random.choice(STEPS)
        getattr(self, "_" + kind.replace("-", "_"))()

    def file(self) -> str | None:
        paths = [path for path in self.simulated.paths() if not self.is_moved or "/" not in path]
        return self.random.choice(paths) if paths else None

    def directory(self) -> str:
        there = [name for name in DIRECTORIES if not name or self.simulated.exists(name)]
        if self.is_moved:
            there = [""]
        return self.random.choice(there)

    def both(self, words: str, *operations: Callable[[], object]) -> None:
        """Both raise, or none."""
        self.story.append(words)
        failures: list[int | None] = []
        for operation in operations:
            try:
                operation()
                failures.append(None)
            except OSError as error:
                failures.append(error.errno)
        assert (failures[0] is None) == (failures[1] is None), (failures, self.story)

    def _create(self) -> None:
        directory = self.directory()
        name = f"{directory}/{self.random.choice(NAMES)}".lstrip("/")
        if self.simulated.exists(name) and name not in self.simulated.paths():
            return
        self.both(
            f"create {name}",
            lambda: self.simulated.open(name, create=True),
            lambda: self.real.open(self.path(name), create=True),
        )

    def _write(self) -> None:
        if (name := self.file()) is not None:
            size = self.simulated.size(name)
            position = self.random.choice([size, size, self.random.randint(0, size + 3)])
            data = self.random.randbytes(self.random.randint(1, 20))
            self.both(
                f"write {name} {position} {len(data)}",
                lambda: self.simulated.open(name).write_at(position, data),
                lambda: self.real.open(self.path(name)).write_at(position, data),
            )

    def _truncate(self) -> None:
        if (name := self.file()) is not None:
            size = self.random.randint(0, self.simulated.size(name) + 2)
            self.both(
                f"truncate {name} {size}",
                lambda: self.simulated.open(name).truncate(size),
                lambda: self.real.open(self.path(name)).truncate(size),
            )

    def _reserve(self) -> None:
        if (name := self.file()) is not None:
            size = self.random.randint(1, self.simulated.size(name) + 9)
            self.both(
                f"reserve {name} {size}",
                lambda: self.simulated.open(name).reserve(size),
                lambda: self.real.open(self.path(name)).reserve(size),
            )

    def _map(self) -> None:
        """Stores, perhaps a sync in between, and more stores."""
        if (name := self.file()) is None:
            return
        size = self.random.randint(1, self.simulated.size(name) + 9)
        at, syncs = self.random.randrange(size), self.random.random() < 0.5
        self.story.append(f"map {name} {size} {at} {syncs}")
        disks: tuple[tuple[Storage, str], ...] = ((self.simulated, name), (self.real, self.path(name)))
        for disk, path in disks:
            mapping = disk.map(path, size, writable=True)
            mapping.view[at] = 7
            if syncs:
                disk.open(path).sync()
            mapping.view[0] = 9
            mapping.close()

    def _sync(self) -> None:
        if (name := self.file()) is not None:
            self.both(
                f"sync {name}",
                lambda: self.simulated.open(name).sync(),
                lambda: self.real.open(self.path(name)).sync(),
            )

    def _fail_sync(self) -> None:
        if (name := self.file()) is not None:
            self.simulated.failing["sync"] = 5
            self.control.change(sync_error=5)
            self._sync_of(name)
            del self.simulated.failing["sync"]
            self.control.change(sync_error=0)

    def _sync_of(self, name: str) -> None:
        self.both(
            f"fail sync {name}",
            lambda: self.simulated.open(name).sync(),
            lambda: self.real.open(self.path(name)).sync(),
        )

    def _sync_directory(self) -> None:
        name = self.directory()
        self.is_moved = self.is_moved and bool(name)
        self.both(
            f"sync directory {name}",
            lambda: self.simulated.sync_directory(name),
            lambda: self.real.sync_directory(self.path(name)),
        )

    def _mkdir(self) -> None:
        if self.is_moved:
            return
        name = self.random.choice(DIRECTORIES[1:])
        self.both(
            f"mkdir {name}",
            lambda: self.simulated.make_directory(name),
            lambda: self.real.make_directory(self.path(name)),
        )

    def _rename(self) -> None:
        if (source := self.file()) is not None:
            directory = source.rpartition("/")[0]
            target = f"{directory}/{self.random.choice(NAMES)}".lstrip("/")
            if source != target:
                self.both(
                    f"rename {source} {target}",
                    lambda: self.simulated.rename(source, target),
                    lambda: self.real.rename(self.path(source), self.path(target)),
                )

    def _rename_directory(self) -> None:
        if self.simulated.exists("p") and not self.simulated.exists("p-deleted"):
            self.is_moved = True
            self.both(
                "rename p p-deleted",
                lambda: self.simulated.rename("p", "p-deleted"),
                lambda: self.real.rename(self.path("p"), self.path("p-deleted")),
            )

    def _remove(self) -> None:
        if (name := self.file()) is not None:
            self.both(
                f"remove {name}",
                lambda: self.simulated.remove(name),
                lambda: self.real.remove(self.path(name)),
            )

    def _rmdir(self) -> None:
        if self.is_moved:
            return
        name = self.random.choice(DIRECTORIES[1:])
        if self.simulated.exists(name):
            self.both(
                f"rmdir {name}",
                lambda: self.simulated.remove_directory(name),
                lambda: self.real.remove_directory(self.path(name)),
            )

    def _restart(self) -> None:
        """A killed process loses nothing, and the next one makes nothing safer."""
        if any(inode.given_up for inode in self.simulated._files.values()):
            return  # what it could not sync may be gone with it
        self.story.append("restart")
        self.simulated.process_died()
        self.real = self.new_process()

    def crash(self) -> None:
        self.story.append("crash")
        self.is_moved = False
        self.simulated.crash()
        lose_power(self.data, self.hooks / "journal")
        self.real = self.new_process()
        found = {
            str(Path(parent, name).relative_to(self.data)): Path(parent, name).read_bytes()
            for parent, _, names in os.walk(self.data)
            for name in names
        }
        expected = {name: bytes(self.simulated._files[name].content) for name in self.simulated.paths()}
        assert found == expected, self.story
        directories = {name for name in DIRECTORIES[1:] if self.simulated.exists(name)}
        assert {name for name in DIRECTORIES[1:] if (self.data / name).is_dir()} == directories, self.story


@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_is_what_the_simulator_leaves(seed: int, tmp_path: Path) -> None:
    both = Both(tmp_path, seed)
    with contextlib.closing(both.control._map):
        for _ in range(3):  # the disk of one power failure is that of the next
            for _ in range(both.random.randint(5, 60)):
                both.step()
            both.crash()
