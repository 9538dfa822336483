"""How the process divides its open files between logs and connections.

Without a limit, a broker whose clients open more and more connections runs out of descriptors: then it can
open no segment, and its writes fail. So connections get what the logs and the rest of the process leave.
"""

import contextlib
import logging
import resource
from typing import NamedTuple

from tidelog.config import BrokerConfig

logger = logging.getLogger(__name__)

SPARE = 512  # libraries, connections to other nodes, files that are opened for a moment
CONNECTIONS_WANTED_MAX = 1 << 16  # The limit of open files is not raised for more.
NO_LIMIT = 1 << 30


class Descriptors(NamedTuple):
    logs: int  # segment files kept open
    connections: int


def wanted(config: BrokerConfig) -> int:
    return config.log_open_files_max + SPARE + min(config.max_connections, CONNECTIONS_WANTED_MAX)


def divide(limit: int, config: BrokerConfig) -> Descriptors:
    """``limit``: how many the process may open. With few of them, logs and connections get a part each."""
    spare = min(SPARE, limit // 4)
    logs = min(config.log_open_files_max, max((limit - spare) // 2, 1))
    return Descriptors(logs, max(limit - spare - logs, 1))


def claim(config: BrokerConfig) -> Descriptors:
    """Raise the process's limit to what the settings may need, up to the hard limit, and divide it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted(config) if hard == resource.RLIM_INFINITY else min(wanted(config), hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
    divided = divide(NO_LIMIT if soft == resource.RLIM_INFINITY else soft, config)
    if divided.logs < config.log_open_files_max:
        logger.warning(
            "the process may open %s files: %s of them for logs instead of log.open.files.max (%s), and "
            "%s for connections", soft, divided.logs, config.log_open_files_max, divided.connections,
        )  # fmt: skip
    return divided
