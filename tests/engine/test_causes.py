"""The chain of an error's causes: each once, also if it is a cycle."""

from __future__ import annotations

from itertools import islice

from penstock.engine.causes import with_causes


def names(error: BaseException | None, *, implicit: bool = True) -> list[str]:
    return [str(cause) for cause in islice(with_causes(error, implicit=implicit), 10)]


def test_an_error_comes_before_its_causes() -> None:
    first, second, third = (ValueError(name) for name in ("first", "second", "third"))
    first.__cause__ = second
    second.__context__ = third
    assert names(first) == ["first", "second", "third"]
    assert names(first, implicit=False) == ["first", "second"]


def test_no_error_has_no_causes() -> None:
    assert names(None) == []


def test_an_error_that_is_its_own_cause_comes_once() -> None:
    error = ValueError("mine")
    error.__cause__ = error
    assert names(error) == ["mine"]


def test_errors_that_cause_each_other_come_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert names(first) == ["first", "second"]


def test_errors_that_are_equal_are_different_causes() -> None:
    class SameError(Exception):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, SameError)

        __hash__ = Exception.__hash__

    first, second = SameError("first"), SameError("second")
    first.__cause__ = second
    assert names(first) == ["first", "second"]
