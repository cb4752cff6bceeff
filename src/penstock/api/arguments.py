"""Arguments checked as PySpark checks them."""

from __future__ import annotations

from pyspark.errors import PySparkValueError


def check_timeout(timeout: object, *, zero_is_fine: bool = False) -> None:
    """Raise PySpark's error for a timeout that is no number of seconds above zero."""
    is_number = isinstance(timeout, (int, float))
    if is_number and (timeout > 0 or (zero_is_fine and timeout == 0)):  # type: ignore[operator]
        return
    raise PySparkValueError(
        errorClass="VALUE_NOT_POSITIVE",
        messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
    )
