"""Argument checks that raise PySpark's errors."""

from __future__ import annotations

from pyspark.errors import PySparkValueError

from penstock.spark.jvm.pyspark_api import new_error


def check_timeout(timeout: object, *, zero_is_fine: bool = False) -> None:
    """Raise PySparkValueError unless `timeout` is a positive number of seconds.

    With `zero_is_fine`, 0 is accepted too.
    """
    is_number = isinstance(timeout, (int, float))
    if is_number and (timeout > 0 or (zero_is_fine and timeout == 0)):  # type: ignore[operator]
        return
    raise new_error(
        PySparkValueError,
        "VALUE_NOT_POSITIVE",
        {"arg_name": "timeout", "arg_value": type(timeout).__name__},
    )
