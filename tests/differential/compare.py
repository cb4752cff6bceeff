"""Compares two observations and formats their differences."""

from __future__ import annotations

import difflib
import pprint
from typing import Any

from tests.differential.program import Aspect
from tests.differential.runs import Observation

_MAX_LINES = 120


def differences(left_name: str, left: Observation, right_name: str, right: Observation) -> str:
    """A diff of every aspect in which two observations differ; empty if they are equal."""
    parts = [
        _difference(aspect, left_name, left.get(aspect), right_name, right.get(aspect))
        for aspect in Aspect
        if left.get(aspect) != right.get(aspect)
    ]
    return "\n".join(parts)


def _difference(aspect: Aspect, left_name: str, left: Any, right_name: str, right: Any) -> str:
    diff = list(
        difflib.unified_diff(
            _lines(left), _lines(right), fromfile=left_name, tofile=right_name, n=6, lineterm=""
        )
    )
    if len(diff) > _MAX_LINES:
        diff = [*diff[:_MAX_LINES], f"... and {len(diff) - _MAX_LINES} more lines"]
    return "\n".join([f"The {aspect.value} differ:", *diff])


def _lines(value: Any) -> list[str]:
    return pprint.pformat(value, width=110, sort_dicts=False).splitlines()
