"""Whether there is a Java for Spark, in one sentence instead of Spark's fifty lines.

Spark uses ``JAVA_HOME`` and then the ``java`` on the PATH; so does this.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class SetupError(RuntimeError):
    """Spark cannot run here as it is; the message says what to do."""


class JavaMissing(SetupError):
    """Java is missing or too old."""


def require_java() -> int:
    """The version of the Java that Spark will use; :class:`JavaMissing` if Spark would fail."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (version := _version_of(java)) is None:
        where = f"JAVA_HOME is {home}, where none is" if home else "none was found"
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer, and {where}: install one "
            "(Debian and Ubuntu: apt install default-jre-headless) or set JAVA_HOME."
        )
    if version < OLDEST:
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer, and {java} is Java {version}: "
            "install a newer one or set JAVA_HOME."
        )
    return version


def _version_of(java: str) -> int | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stderr) or _VERSION.search(said.stdout)
    return int(found.group(1)) if found else None
