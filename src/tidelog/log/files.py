"""Small files that are read at once and replaced atomically."""

import errno

from tidelog.log.layout import TEMPORARY_SUFFIX
from tidelog.log.storage import File, Storage

LARGEST_BYTES = 1 << 28  # of a file that is read at once; checkpoints have about 30 bytes per partition


def read_whole(storage: Storage, path: str) -> bytes | None:
    """The content, or None if there is no such file. A file too large to be one of Tidelog's is an
    ``OSError``: reading it would use up the memory, and end the broker instead of one partition.
    """
    try:
        file = storage.open(path)
    except FileNotFoundError:
        return None
    size = file.size()
    if size > LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"{size} bytes are too many: remove the file", path)
    return file.read_at(0, size)


def write_beside(storage: Storage, path: str, data: bytes) -> File:
    """Write a new file that the caller syncs and, if it replaces another, renames."""
    storage.remove(path)
    file = storage.open(path, create=True)
    file.write_at(0, data)
    return file


def replace_whole(storage: Storage, path: str, data: bytes) -> None:
    """Put ``data`` at ``path`` so that a crash leaves either the old or the new content, never a mixture.

    The caller syncs the directory if the new content must not be lost.
    """
    temporary = path + TEMPORARY_SUFFIX
    write_beside(storage, temporary, data).sync()
    storage.rename(temporary, path)


def parent_of(path: str) -> str:
    """The directory that holds ``path``; empty for the current one."""
    head, separator, _ = path.rpartition("/")
    return head or separator


def make_directories(storage: Storage, path: str) -> None:
    """Create a directory and its missing parents, each durable before it is used."""
    if not path or storage.exists(path):
        return
    parent = parent_of(path)
    make_directories(storage, parent)
    storage.make_directory(path)
    storage.sync_directory(parent)


def remove_tree(storage: Storage, directory: str) -> None:
    """Remove a partition's directory and its content."""
    for entry in storage.list(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory:
            remove_tree(storage, path)
        else:
            storage.remove(path)
    storage.remove_directory(directory)
