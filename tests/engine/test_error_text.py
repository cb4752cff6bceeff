"""The message of an error, complete or as one line."""

from __future__ import annotations

import pytest

from penstock.engine.error_text import error_text, one_line
from penstock.errors import Condition, MissingMetadataError

TRACEBACK = """Traceback (most recent call last):
  File "job.py", line 3, in write
    raise KeyError("customer_id")
KeyError: 'customer_id'
"""


def test_the_text_of_an_error_is_its_class_and_message() -> None:
    assert error_text(KeyError("customer_id")) == "KeyError: 'customer_id'"
    assert error_text(AssertionError()) == "AssertionError"


def test_the_text_of_a_penstock_error_is_its_message() -> None:
    condition = Condition("NAME", "42K03", {"a": "b"})
    error = MissingMetadataError("It is not there.", condition, "Restore it.")
    assert error_text(error) == "[NAME] It is not there. SQLSTATE: 42K03\nRestore it."


LINE = "KeyError: 'customer_id'"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[A.B] It failed. SQLSTATE: 1\n\tat java", "[A.B] It failed. SQLSTATE: 1"),
        (f"[P] From the worker: {TRACEBACK} SQLSTATE: 38", f"[P] From the worker: {LINE}"),
        (f"[F] Reason: {LINE}\n{TRACEBACK}", f"[F] Reason: {LINE}"),
        (TRACEBACK, LINE),
        (
            "ParseException: \n[PARSE_SYNTAX_ERROR] at 'an'\n== SQL ==",
            "ParseException: [PARSE_SYNTAX_ERROR] at 'an'",
        ),
        ("", ""),
    ],
)
def test_one_line_has_no_stack_and_no_traceback(text: str, line: str) -> None:
    assert one_line(text) == line
