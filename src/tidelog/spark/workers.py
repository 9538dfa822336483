"""Which Python Spark's workers start, and whether it has what they need; in one sentence if not.

Spark starts ``PYSPARK_PYTHON``, and ``python3`` from the PATH without it: not the Python that runs the
driver, unless its environment is activated. Owns that choice for sessions on this machine, and the check of
what a user chose.
"""

import os
import shutil
import subprocess
import sys
from typing import Any

from tidelog.spark.java import SetupError

VARIABLE = "PYSPARK_PYTHON"
_SETTING = "spark.pyspark.python"
_NEEDED = ("pyspark", "pyarrow", "numba", "tidelog")
_CHECK = (
    "import sys, importlib.util as u; print('%d.%d' % sys.version_info[:2], "
    f"*[name for name in {_NEEDED!r} if u.find_spec(name) is None])"
)
_CHECK_S = 60


class WrongPython(SetupError):
    """Spark's workers would start a Python that cannot run Tidelog; the message says what to set."""


def prepare_workers(spark: Any) -> None:
    """Make workers of a session on this machine start this Python, unless the user chose another one.

    :class:`WrongPython` if the chosen one cannot work. A Spark Connect server has its own.
    """
    context = getattr(spark, "_sc", None)  # the property sparkContext raises on Spark Connect
    if context is None:
        return
    chosen = os.environ.get(VARIABLE) or context.getConf().get(_SETTING)
    if chosen is None and is_local(context.master):
        chosen = os.environ[VARIABLE] = sys.executable
    if chosen is not None:
        # Read when the context was made, and again for every function that it ships.
        context.pythonExec = chosen
    check_python(str(context.pythonExec), is_chosen=chosen is not None)


def choose_python(master: str | None) -> None:
    """Before a session exists: the same choice."""
    if is_local(master):
        os.environ.setdefault(VARIABLE, sys.executable)
    check_python(os.environ.get(VARIABLE, "python3"), is_chosen=VARIABLE in os.environ)


def is_local(master: str | None) -> bool:
    """Whether executors are on this machine and may have its Python; a cluster's may have their own."""
    return master is None or master.startswith("local")


def check_python(python: str, *, is_chosen: bool) -> None:
    """:class:`WrongPython` if it cannot plan queries here; executors on other machines are not seen."""
    path = shutil.which(python)
    where = f"{VARIABLE} is {python}" if is_chosen else f"{VARIABLE} is not set, so Spark starts {python}"
    fix = f"set {VARIABLE}={sys.executable}"
    if path is None:
        raise WrongPython(f"{where}, which is not there: {fix}.")
    if os.path.abspath(path) == os.path.abspath(sys.executable):  # noqa: PTH100
        return  # not resolved: the Python of an environment is a link to one outside of it
    try:
        probed = subprocess.run(
            [path, "-c", _CHECK], capture_output=True, text=True, timeout=_CHECK_S, check=True
        )
    except subprocess.TimeoutExpired:
        return  # a busy machine: Spark will say it
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongPython(f"{where}, which cannot run: {error}; {fix}.") from None
    version, *missing = probed.stdout.split()
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != own:
        raise WrongPython(f"{where}, which is Python {version}, and this one is {own}: {fix}.")
    # Spark gives its workers its own copy of PySpark.
    if absent := [name for name in missing if name != "pyspark"]:
        raise WrongPython(
            f"{where}, where {' and '.join(absent)} cannot be imported: {fix}, "
            "or install tidelog[spark] there."
        )
