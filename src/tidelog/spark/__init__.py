"""Topics as Spark DataFrames: the data source ``tidelog``, and the pipelines built on it.

Spark finds the format by its name wherever Tidelog is installed (see :mod:`pyspark_tidelog`);
:func:`register` is for sessions without that discovery.

Importing this is cheap: PySpark, Arrow and numba are loaded when they are used.
"""

from typing import TYPE_CHECKING, Any

from tidelog.spark.java import JavaMissing, require_java
from tidelog.spark.options import OptionError

if TYPE_CHECKING:
    from tidelog.spark.datasource import TidelogDataSource
    from tidelog.spark.schemas.functions import from_tidelog, to_tidelog

__all__ = [
    "JavaMissing",
    "OptionError",
    "TidelogDataSource",
    "from_tidelog",
    "register",
    "require_java",
    "to_tidelog",
]


def register(spark: Any) -> None:
    """Register ``format("tidelog")`` in a session."""
    from tidelog.spark.datasource import TidelogDataSource

    spark.dataSource.register(TidelogDataSource)


def __getattr__(name: str) -> Any:
    if name == "TidelogDataSource":
        from tidelog.spark.datasource import TidelogDataSource

        return TidelogDataSource
    if name in ("from_tidelog", "to_tidelog"):
        from tidelog.spark.schemas import functions

        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
