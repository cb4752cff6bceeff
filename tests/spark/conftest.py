"""Fixtures: every test has its own session on the shared SparkContext."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.streams")

from tests.streams import session  # noqa: E402

__all__ = ["session"]
