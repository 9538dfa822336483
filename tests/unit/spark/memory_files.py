"""Files in memory, and a disk on which the process dies at a chosen operation."""

from collections.abc import Callable

from tidelog.spark.pipelines.tables.filesystem import FileInfo


class Died(Exception):
    """The process does not get any further."""


class MemoryFiles:
    """Implements ``Files``. ``contents`` outlives the process."""

    def __init__(self, contents: dict[str, bytes] | None = None) -> None:
        self.contents: dict[str, bytes] = {} if contents is None else contents
        self.before: Callable[[], None] = lambda: None  # each operation that changes something
        self.after: Callable[[], None] = lambda: None

    def exists(self, name: str) -> bool:
        return name in self.contents or any(one.startswith(f"{name}/") for one in self.contents)

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        prefix = f"{directory}/" if directory else ""
        found = [one for one in self.contents if one.startswith(prefix)]
        return sorted(
            FileInfo(one, len(self.contents[one]))
            for one in found
            if recursive or "/" not in one.removeprefix(prefix)
        )

    def directories(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        inner = [one.removeprefix(prefix) for one in self.contents if one.startswith(prefix)]
        return sorted({prefix + one.partition("/")[0] for one in inner if "/" in one})

    def read(self, name: str) -> bytes:
        if name not in self.contents:
            raise FileNotFoundError(name)
        return self.contents[name]

    def write(self, name: str, content: bytes) -> None:
        self._change(lambda: self.contents.update({name: content}))

    def create(self, name: str, content: bytes) -> bool:
        if name in self.contents:
            return False
        self._change(lambda: self.contents.update({name: content}))
        return True

    def move(self, source: str, target: str) -> bool:
        if source not in self.contents:
            return False
        self._change(lambda: self.contents.update({target: self.contents.pop(source)}))
        return True

    def delete(self, name: str) -> None:
        for one in sorted(self.contents):
            if one == name or one.startswith(f"{name}/"):
                self._change(lambda one=one: self.contents.pop(one, None))  # type: ignore[misc]

    def _change(self, change: Callable[[], object]) -> None:
        self.before()
        change()
        self.after()


def dying(contents: dict[str, bytes], operations: int) -> MemoryFiles:
    """The process dies instead of the operation with that number, counted from 0."""
    files = MemoryFiles(contents)
    left = operations

    def count() -> None:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1

    files.before = count
    return files
