"""Errors of ours reach the user of Spark as one sentence, without the traceback of a Python worker."""

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Spark's workers look at it after an exception. They end then, so it cannot hide another one.
_HIDE = "SPARK_HIDE_TRACEBACK"
_OF_WORKERS = "PYTHON_WORKER_FACTORY_"  # begins variables that only Python processes of Spark have


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """For a method that Spark calls in a worker."""

    @wraps(method)
    def called(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except Exception as error:
            _hide_traceback(error)
            raise

    return called


def plainly_read(batches: Iterator[T]) -> Iterator[T]:
    try:
        yield from batches
    except Exception as error:
        _hide_traceback(error)
        raise


def _hide_traceback(error: Exception) -> None:
    """Of an error whose message says what to do; any other is a defect, whose place matters."""
    from tidelog.client.errors import ClientError
    from tidelog.spark.options import OptionError
    from tidelog.spark.reading.loss import ReadFailure

    in_worker = any(name.startswith(_OF_WORKERS) for name in os.environ)
    if in_worker and isinstance(error, ClientError | OptionError | ReadFailure):
        os.environ[_HIDE] = "1"
