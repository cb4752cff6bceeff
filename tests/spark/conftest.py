"""Fixtures: every test has its own session on the shared SparkContext."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.spark.optimizations", "tests.streams")

from tests.spark.optimizations import optimizations  # noqa: E402
from tests.streams import session  # noqa: E402

__all__ = ["optimizations", "session"]
