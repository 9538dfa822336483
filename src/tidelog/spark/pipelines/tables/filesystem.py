"""The files of a directory, on whatever file system Spark writes to.

Owns the few operations that tables of plain files need. Names are relative to the directory and have ``/``
between their parts; directories are made as needed.

============= ==============================================================================
HadoopFiles   the file system that Spark's JVM uses for the path: HDFS, ``s3a://``, ``dbfs:/``, …
LocalFiles    where that is a disk of the driver's machine
ArrowFiles    Spark Connect, whose client has no JVM: local disks, HDFS, S3, GCS
============= ==============================================================================
"""

import contextlib
import os
import shutil
import uuid
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tidelog.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIST_TRIES = 5
_ASIDE = ".new-"  # Hidden from every reader of Parquet, like all names that begin with a dot.


class FileInfo(NamedTuple):
    name: str
    size: int


class Files(Protocol):
    """A file that :meth:`write` or :meth:`create` made is complete or does not exist."""

    def exists(self, name: str) -> bool: ...

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        """Files only, sorted by name; none if there is no such directory. Files that are being made are left
        out.
        """

    def directories(self, directory: str) -> list[str]:
        """Names of the directories in it."""

    def read(self, name: str) -> bytes:
        """FileNotFoundError if it does not exist."""

    def write(self, name: str, content: bytes) -> None:
        """Replaces an existing file."""

    def create(self, name: str, content: bytes) -> bool:
        """False, and nothing changed, if the file exists. Of two callers at once one gets True, unless the
        file system cannot promise that (object stores).
        """

    def move(self, source: str, target: str) -> bool:
        """Replaces an existing file. False, and nothing changed, if there is no source: an earlier call
        moved it.
        """

    def delete(self, name: str) -> None:
        """A file or a directory with everything in it; nothing is done if it does not exist."""


class LocalFiles:
    def __init__(self, root: str) -> None:
        self._root = Path(root)

    @property
    def root(self) -> Path:
        return self._root

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        """A file that vanishes while it is listed has the size 0, so that the listing shows one moment: the
        newest file of a log is replaced by a newer one, which came too late to be listed.
        """
        infos = []
        for path, children, names in os.walk(self._root / directory):
            for name in names:
                if not name.startswith(_ASIDE):
                    full = Path(path, name)
                    infos.append(FileInfo(full.relative_to(self._root).as_posix(), _size(full)))
            if not recursive:
                children.clear()
        return sorted(infos)

    def directories(self, directory: str) -> list[str]:
        start = self._root / directory
        if not start.is_dir():
            return []
        return sorted(path.relative_to(self._root).as_posix() for path in start.iterdir() if path.is_dir())

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        aside = self._aside(name, content)
        aside.replace(self._root / name)

    def create(self, name: str, content: bytes) -> bool:
        aside = self._aside(name, content)
        try:
            # A hard link is the one way to give a complete file a name that must be free.
            os.link(aside, self._root / name)
        except FileExistsError:
            return False
        except OSError:  # a disk without hard links
            if self.exists(name):
                return False
            aside.replace(self._root / name)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def move(self, source: str, target: str) -> bool:
        (self._root / target).parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._root / source).replace(self._root / target)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _aside(self, name: str, content: bytes) -> Path:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{_ASIDE}{uuid.uuid4().hex}")
        try:
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        return aside


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class HadoopFiles:
    """Each operation is a call into the JVM of the session."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._streams: Any = jvm.org.apache.commons.io.IOUtils
        self._path_class: Any = jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        root_path = self._path_class(root)
        self._fs: Any = root_path.getFileSystem(configuration)
        self._root: Any = self._fs.makeQualified(root_path)

    @property
    def local_root(self) -> str | None:
        """The directory, if it is on a disk of this machine."""
        uri = self._root.toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._full(name)))

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        from py4j.protocol import Py4JJavaError

        for _ in range(_LIST_TRIES):
            # Some file systems fail if a file vanishes while its directory is listed.
            with contextlib.suppress(Py4JJavaError):
                return self._list(directory, recursive)
        return self._list(directory, recursive)

    def _list(self, directory: str, recursive: bool) -> list[FileInfo]:
        if not self.exists(directory):
            return []
        found = self._fs.listFiles(self._full(directory), recursive)
        infos = []
        while found.hasNext():
            status = found.next()
            name = self._relative(status.getPath())
            if not name.rpartition("/")[2].startswith(_ASIDE):
                infos.append(FileInfo(name, int(status.getLen())))
        return sorted(infos)

    def directories(self, directory: str) -> list[str]:
        if not self.exists(directory):
            return []
        found = self._fs.listStatus(self._full(directory))
        return sorted(self._relative(one.getPath()) for one in found if one.isDirectory())

    def read(self, name: str) -> bytes:
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._fs.open(self._full(name))
        except Py4JJavaError as failure:
            if self.exists(name):
                raise
            raise FileNotFoundError(name) from failure
        try:
            return bytes(self._streams.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        self._rename(self._aside(name, content), name)

    def create(self, name: str, content: bytes) -> bool:
        aside = self._aside(name, content)
        # HDFS refuses to rename onto an existing file; others may replace it, so this looks first.
        if not self.exists(name) and self._fs.rename(self._full(aside), self._full(name)):
            return True
        self.delete(aside)
        return False

    def move(self, source: str, target: str) -> bool:
        """Another run may move the same file: a target that is complete is never removed."""
        from py4j.protocol import Py4JJavaError

        size = self._size(source)
        if size is None:
            return False
        found = self._size(target)
        if found == size:
            # Copied by an earlier call that died before it removed the source, or moved by another run.
            self.delete(source)
            return True
        if found is not None:
            self.delete(target)
        self._fs.mkdirs(self._full(target).getParent())
        try:
            is_moved = bool(self._fs.rename(self._full(source), self._full(target)))
        except Py4JJavaError:
            is_moved = False
        if not is_moved and self.exists(source):
            raise OSError(f"{self._full(source)} could not be renamed to {target}")
        return is_moved

    def _size(self, name: str) -> int | None:
        """None if there is no such file."""
        from py4j.protocol import Py4JJavaError

        try:
            return int(self._fs.getFileStatus(self._full(name)).getLen())
        except Py4JJavaError:
            if self.exists(name):
                raise
            return None

    def delete(self, name: str) -> None:
        self._fs.delete(self._full(name), True)

    def _rename(self, source: str, target: str) -> None:
        if self.exists(target):
            # Only if an earlier call died in between, or a file is replaced; the source is complete.
            self.delete(target)
        if not self._fs.rename(self._full(source), self._full(target)):
            raise OSError(f"{self._full(source)} could not be renamed to {target}")

    def _aside(self, name: str, content: bytes) -> str:
        directory, slash, _ = name.rpartition("/")
        aside = f"{directory}{slash}{_ASIDE}{uuid.uuid4().hex}"
        stream = self._fs.create(self._full(aside), True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        return aside

    def _full(self, name: str) -> Any:
        return self._path_class(self._root, name) if name else self._root

    def _relative(self, path: Any) -> str:
        return str(path.toUri().getPath())[len(self._root_path) :].lstrip("/")

    @cached_property
    def _root_path(self) -> str:
        return str(self._root.toUri().getPath())


class ArrowFiles:
    """Object stores of Arrow replace objects: :meth:`create` looks first, which is no promise."""

    def __init__(self, root: str) -> None:
        import pyarrow as pa
        import pyarrow.fs as pafs

        try:
            self._fs, self._root = pafs.FileSystem.from_uri(root)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise OptionError(
                f"Spark Connect has no file system for {root}: {error}; run the pipeline with --master, "
                "in the cluster, or choose a target that Arrow can reach (a directory, hdfs://, s3://, gs://)."
            ) from None
        self._types = pafs.FileType
        self._selector = pafs.FileSelector

    def exists(self, name: str) -> bool:
        return bool(self._fs.get_file_info(self._full(name)).type != self._types.NotFound)

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        found = self._find(directory, recursive)
        names = [FileInfo(self._relative(one), one.size) for one in found if one.type == self._types.File]
        return sorted(one for one in names if not one.name.rpartition("/")[2].startswith(_ASIDE))

    def directories(self, directory: str) -> list[str]:
        found = self._find(directory, recursive=False)
        return sorted(self._relative(one) for one in found if one.type == self._types.Directory)

    def read(self, name: str) -> bytes:
        with self._fs.open_input_stream(self._full(name)) as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        self._fs.move(self._full(self._aside(name, content)), self._full(name))

    def create(self, name: str, content: bytes) -> bool:
        if self.exists(name):
            return False
        self.write(name, content)
        return True

    def move(self, source: str, target: str) -> bool:
        if not self.exists(source):
            return False
        self._fs.create_dir(self._full(target).rpartition("/")[0], recursive=True)
        try:
            self._fs.move(self._full(source), self._full(target))
        except FileNotFoundError:
            if self.exists(source):  # not moved by another run
                raise
            return False
        return True

    def delete(self, name: str) -> None:
        kind = self._fs.get_file_info(self._full(name)).type
        if kind == self._types.Directory:
            self._fs.delete_dir(self._full(name))
        elif kind == self._types.File:
            self._fs.delete_file(self._full(name))

    def _find(self, directory: str, recursive: bool) -> list[Any]:
        selector = self._selector(self._full(directory), allow_not_found=True, recursive=recursive)
        return list(self._fs.get_file_info(selector))

    def _aside(self, name: str, content: bytes) -> str:
        directory, slash, _ = name.rpartition("/")
        aside = f"{directory}{slash}{_ASIDE}{uuid.uuid4().hex}"
        self._fs.create_dir(self._full(directory), recursive=True)
        with self._fs.open_output_stream(self._full(aside)) as file:
            file.write(content)
        return aside

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def _relative(self, info: Any) -> str:
        return str(info.path)[len(self._root.rstrip("/")) + 1 :]


def files_at(spark: "SparkSession", root: str) -> Files:
    """The files of a directory as Spark itself would reach them: a path without a scheme is one of
    ``fs.defaultFS``.
    """
    if not hasattr(spark, "_jsparkSession"):  # Spark Connect
        return ArrowFiles(root) if ":/" in root else LocalFiles(root)
    from py4j.protocol import Py4JJavaError

    try:
        found = HadoopFiles(spark, root)
    except Py4JJavaError as failure:
        reason = str(failure.java_exception.getMessage()).partition("\n")[0]
        raise OptionError(
            f"Spark has no file system for {root}: {reason}; add its jar and settings with --conf."
        ) from None
    return found if found.local_root is None else LocalFiles(found.local_root)
