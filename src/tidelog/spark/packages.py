"""Whether the packages of ``tidelog[spark]`` are there, in one sentence if not."""

import importlib.util

from tidelog.spark.java import SetupError

_EXTRA = "pip install 'tidelog[spark]'"
_NEEDED = ("pyspark", "pyarrow", "pandas", "numba")  # Spark asks for pandas before it runs mapInArrow.


class PackageMissing(SetupError, ImportError):
    """A package of the extra ``spark`` is missing or too old."""


def require_packages() -> None:
    """:class:`PackageMissing` names what to install."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise PackageMissing(f"This needs {', '.join(missing)}, not installed here: {_EXTRA}.")
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    try:
        require_minimum_pyarrow_version()
    except ImportError as error:
        raise PackageMissing(f"{error} Upgrade it: {_EXTRA} --upgrade.") from None
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow  # noqa: F401
    except ImportError:
        import pyspark

        raise PackageMissing(
            f"PySpark {pyspark.__version__} is too old, and 4.2 or newer is needed: {_EXTRA} --upgrade."
        ) from None
