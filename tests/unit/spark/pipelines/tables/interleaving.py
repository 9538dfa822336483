"""Several processes on the same files, of which one at a time gets any further: a schedule says which.

Every operation on files is a point at which a process may be stopped, and go on later or never. Deleting a
directory is many operations, one for each file in it.
"""

from collections.abc import Callable, Sequence
from threading import Event, Thread

from tidelog.spark.pipelines.tables.filesystem import FileInfo
from unit.spark.pipelines.tables.memory_files import MemoryFiles

Work = Callable[[MemoryFiles], object]


class Killed(BaseException):
    """The process does not get any further. No handler of the program catches it."""


class _SharedFiles(MemoryFiles):
    """As one process sees them: each operation first waits until it is this process's turn."""

    def __init__(self, contents: dict[str, bytes], turn: Callable[[], None]) -> None:
        super().__init__(contents)
        self._turn = self.before = turn

    def exists(self, name: str) -> bool:
        self._turn()
        return super().exists(name)

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        self._turn()
        return super().files(directory, recursive=recursive)

    def directories(self, directory: str) -> list[str]:
        self._turn()
        return super().directories(directory)

    def read(self, name: str) -> bytes:
        self._turn()
        return super().read(name)

    def create(self, name: str, content: bytes) -> bool:
        """One operation: whether the name is free is decided when it happens."""
        self._turn()
        if name in self.contents:
            return False
        self.contents[name] = content
        return True

    def move(self, source: str, target: str) -> bool:
        self._turn()
        if source not in self.contents:
            return False
        self.contents[target] = self.contents.pop(source)
        return True


class Process:
    """Some work in a thread that does nothing until it is told to."""

    def __init__(self, contents: dict[str, bytes], work: Work) -> None:
        self.outcome: object = None
        self.is_over = False
        self.operations = 0
        self._left = 0
        self._is_killed = False
        self._go, self._stopped = Event(), Event()
        self._files = _SharedFiles(contents, self._turn)
        self._thread = Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def run(self, operations: int | None = None) -> None:
        """So many operations, or to its end."""
        if self.is_over or operations == 0:
            return
        self._left = -1 if operations is None else operations
        self._resume()

    def kill(self) -> None:
        if not self.is_over:
            self._is_killed = True
            self._resume()
        self._thread.join()

    def _resume(self) -> None:
        self._stopped.clear()
        self._go.set()
        self._stopped.wait()

    def _turn(self) -> None:
        while self._left == 0 and not self._is_killed:
            self._stopped.set()
            self._go.wait()
            self._go.clear()
        if self._is_killed:
            raise Killed
        self._left -= 1
        self.operations += 1

    def _run(self, work: Work) -> None:
        self._go.wait()
        self._go.clear()
        try:
            self.outcome = work(self._files)
        except Killed:
            pass
        except Exception as failure:
            self.outcome = failure
        self.is_over = True
        self._stopped.set()


def interleave(
    contents: dict[str, bytes], works: Sequence[Work], schedule: Sequence[tuple[int, int | None]]
) -> list[Process]:
    """``schedule``: the number of a process and of the operations that it does next. What is not over then
    is killed.
    """
    processes = [Process(contents, work) for work in works]
    for number, operations in schedule:
        processes[number].run(operations)
    for process in processes:
        process.kill()
    return processes
