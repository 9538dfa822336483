"""Where the lines of the audit log go: to a file of their own, or into the broker's log.

The file is opened again when it was renamed, so that it can be rotated from outside.
"""

import json
import logging
import logging.handlers
from collections.abc import Callable
from pathlib import Path

from tidelog.config import BrokerConfig
from tidelog.runtime.logs import plain_json, timestamp
from tidelog.security.audit import Line

logger = logging.getLogger("tidelog.audit")


def audit_log(config: BrokerConfig, directory: Path) -> Callable[[Line], None] | None:
    """None: there are no access rules, and no setting asks for the log. ``directory``: of the config file."""
    if config.audit_log_file is None:
        return _write if config.authorizer_class_name else None
    handler = logging.handlers.WatchedFileHandler(directory / config.audit_log_file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return _write


def _write(line: Line) -> None:
    """The names of clients are escaped: a line of the file is one event."""
    fields = {"time": timestamp(line["time_ms"] / 1000), **line}
    del fields["time_ms"]
    logger.info("%s", plain_json(json.dumps(fields, ensure_ascii=False)))
