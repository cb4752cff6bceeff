"""The errors of a sink do not have the secrets of its options."""

from __future__ import annotations

import pytest

from penstock.errors import ExecutionError
from penstock.sinks.secret_errors import without_secrets

OPTIONS = {"password": "sesame-street"}


def test_an_error_with_a_secret_in_a_cause_is_replaced() -> None:
    error = ValueError("refused")
    error.__cause__ = ConnectionError("password is sesame-street")
    with (
        pytest.raises(ExecutionError, match="ValueError: refused") as caught,
        without_secrets(OPTIONS),
    ):
        raise error
    assert caught.value.__cause__ is None


def test_an_error_that_is_its_own_cause_is_raised_as_it_is() -> None:
    error = ValueError("refused")
    error.__cause__ = error
    with pytest.raises(ValueError, match="refused") as caught, without_secrets(OPTIONS):
        raise error
    assert caught.value is error
