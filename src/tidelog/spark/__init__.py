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

__all__ = ["JavaMissing", "OptionError", "TidelogDataSource", "register", "require_java"]


def register(spark: Any) -> None:
    """Register ``format("tidelog")`` in a session."""
    from tidelog.spark.datasource import TidelogDataSource

    spark.dataSource.register(TidelogDataSource)


def __getattr__(name: str) -> Any:
    if name == "TidelogDataSource":
        from tidelog.spark.datasource import TidelogDataSource

        return TidelogDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
