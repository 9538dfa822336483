"""What can go wrong in a pipeline, as one sentence: errors of Spark, of Python in Spark's tasks, of files and
of the cluster.

Spark's messages are pages of two languages' traces. The reason is looked for where experience says it is: an
error of ours in a task, a disk or a permission anywhere, then Spark's own first sentence.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.cli.client import refusal
from tidelog.cli.failure import CommandFailed

# An error whose text is meant to be read: the last line of a Python traceback in Spark's message, or behind
# Spark's own words.
_OURS = re.compile(r"(?:.*: )?(?:\w+\.)*(?:tidelog|pyspark\.errors)(?:\.\w+)*\.\w+: (.+)$")
_PYTHON = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): (.+)$")
_JAVA = re.compile(r"^(?:: |Caused by: )?(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): (.+)$")
_CONDITION = re.compile(r"^\[[A-Z][A-Z0-9_.]*\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_CALLING = re.compile(r"^An error occurred while calling [\w.]+$")
_FILE = re.compile(r"(?:[a-z0-9]+:/{1,3})?/[^\s'\":;,()]+")

_FULL = ("No space left on device", "Disk quota exceeded", "[Errno 28]", "[Errno 122]")
_DENIED = (
    "Permission denied",
    "AccessControlException",
    "AccessDeniedException",
    "[Errno 13]",
    "Mkdirs failed",
)
_NO_MEMORY = ("java.lang.OutOfMemoryError", "GC overhead limit exceeded")
_NO_PATH = "PATH_NOT_FOUND"
_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(?!FILE_NOT_EXIST)\w+\].* reading file (\S+?)\.?(?:\s|$)")
# What Spark says when it cannot even begin, and what to do.
_NO_START = {
    "Insufficient driver memory": "Spark needs more memory to start: --conf spark.driver.memory=1g.",
    "Cannot call methods on a stopped SparkContext": (
        "Spark's session ended while it began, as when no master answers under this address: check --master."
    ),
    "Java gateway process exited before sending its port number": (
        "Java did not start with these settings of Spark: check --conf; the lines above name the one."
    ),
}


@contextmanager
def explained() -> Iterator[None]:
    """Turns what a pipeline raises into :class:`CommandFailed`; errors of our own code stay as they are."""
    from confluent_kafka import KafkaException
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from tidelog.client.errors import ClientError
    from tidelog.spark import OptionError, SetupError
    from tidelog.spark.pipelines.running import MachineTooBusy
    from tidelog.spark.pipelines.tables import TableError

    try:
        yield
    except (SetupError, MachineTooBusy, OptionError, ClientError, TableError) as error:
        raise CommandFailed(sentence(str(error))) from None
    except (PySparkException, Py4JError) as error:
        raise CommandFailed(reason(str(error))) from None
    except KafkaException as error:
        raise refusal(error) from None
    except BrokenPipeError:
        raise  # The reader of the output has closed it, which is no failure.
    except OSError as error:
        raise CommandFailed(_of_file(error)) from None


def reason(text: str) -> str:
    """One sentence from a message of Spark's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(sign in text for sign in _FULL):
        return f"The disk is full{_at(_line_with(lines, _FULL))}; free some space and run the command again."
    if any(sign in text for sign in _DENIED):
        return f"This user may not read or write{_at(_line_with(lines, _DENIED)) or ' a file'}."
    if any(sign in text for sign in _NO_MEMORY):
        return "Spark ran out of memory; give it more with --conf spark.driver.memory=4g."
    if unread := _UNREAD.search(text):
        return (
            f"The file {unread[1].removeprefix('file://')} is damaged, or cannot be read: restore it from a "
            "copy, or move it away to let `tidelog pipeline verify` say which records are missing."
        )
    if advice := next((said for sign, said in _NO_START.items() if sign in text), None):
        return advice
    if ours := [found[1] for line in lines if (found := _OURS.match(line))]:
        return sentence(_bare(ours[-1]))
    if f"[{_NO_PATH}]" in text:
        return f"There is nothing{_at(_line_with(lines, (_NO_PATH,)))}."
    return f"Spark failed: {sentence(_bare(_first_words(lines)))}"


def sentence(text: str) -> str:
    """In one line, with a full stop."""
    joined = " ".join(text.split())
    return joined if joined.endswith((".", "!", "?")) else f"{joined}."


def _first_words(lines: list[str]) -> str:
    """Spark's own words; of a message that begins with a Java call, those of the innermost cause."""
    if not lines:
        return "no reason was given"
    if not _CALLING.match(lines[0].rstrip(".")):
        return lines[0]
    causes = [found[1] for line in lines if (found := _JAVA.match(line) or _PYTHON.match(line))]
    return causes[-1] if causes else lines[-1]


def _bare(text: str) -> str:
    return _SQLSTATE.sub("", _CONDITION.sub("", text))


def _line_with(lines: list[str], signs: tuple[str, ...]) -> str:
    return next((line for line in reversed(lines) if any(sign in line for sign in signs)), "")


def _at(line: str) -> str:
    """`` at PATH``, if the line names a file."""
    found = _FILE.search(line)
    return f" at {found[0].removeprefix('file:').rstrip('.')}" if found else ""


def _of_file(error: OSError) -> str:
    at = f" at {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full{at}; free some space and run the command again."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"This user may not read or write{at or ' a file'}."
    if error.errno == errno.ENOENT and error.filename:
        return f"There is nothing at {error.filename}."
    return sentence(f"{error.strerror or error}{at}")
