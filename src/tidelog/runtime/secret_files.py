"""Reads files with secrets. What is in them never appears in an error."""

import logging
from pathlib import Path

from tidelog.errors import TidelogError
from tidelog.security.cluster_secret import ClusterSecret

logger = logging.getLogger(__name__)

BYTES_MAX = 1 << 20
_OF_OTHERS = 0o077  # permissions of group and others


def read_secret_text(path: Path, setting: str) -> str:
    """Raises ``TidelogError``."""
    try:
        if path.stat().st_mode & _OF_OTHERS:
            logger.warning("%s: other users of this machine may read %s; chmod 600 it", setting, path)
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise TidelogError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise TidelogError(f"{setting}: {path} has more than {BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TidelogError(f"{setting}: {path} is not UTF-8") from None


def read_cluster_secret(path: Path) -> ClusterSecret:
    """Raises ``TidelogError``."""
    setting = "cluster.secret.file"
    try:
        return ClusterSecret.parse(read_secret_text(path, setting))
    except ValueError as error:
        raise TidelogError(f"{setting}: {path}: {error}") from None
