"""Topics as Spark DataFrames: the data source ``tidelog``, and the pipelines built on it.

Spark finds the format by its name wherever the Python of its workers has Tidelog installed (see
:mod:`pyspark_tidelog`); :func:`register` works also where the environment is not activated.

Importing this is cheap: PySpark, Arrow and numba are loaded when they are used.
"""

from typing import TYPE_CHECKING, Any

from tidelog.spark.java import JavaMissing, SetupError, require_java
from tidelog.spark.options import OptionError
from tidelog.spark.packages import PackageMissing, require_packages
from tidelog.spark.workers import WrongPython, prepare_workers

if TYPE_CHECKING:
    from tidelog.spark.datasource import TidelogDataSource
    from tidelog.spark.schemas.functions import from_tidelog, to_tidelog

__all__ = [
    "JavaMissing",
    "OptionError",
    "PackageMissing",
    "SetupError",
    "TidelogDataSource",
    "WrongPython",
    "from_tidelog",
    "register",
    "require_java",
    "to_tidelog",
]


def register(spark: Any) -> None:
    """Make ``format("tidelog")`` known in a session, and its workers start this Python unless
    ``PYSPARK_PYTHON`` names another. :class:`SetupError` says what is missing.
    """
    require_packages()
    prepare_workers(spark)
    from pyspark.errors import AnalysisException

    from tidelog.spark.datasource import TidelogDataSource

    try:
        spark.dataSource.register(TidelogDataSource)
    except AnalysisException as error:
        # Spark has found it by itself, with the Python that its workers start.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def __getattr__(name: str) -> Any:
    if name == "TidelogDataSource":
        from tidelog.spark.datasource import TidelogDataSource

        return TidelogDataSource
    if name in ("from_tidelog", "to_tidelog"):
        from tidelog.spark.schemas import functions

        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
