"""Tests on Spark get their own session; the others start no JVM."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.streams")

from tests.streams import session  # noqa: E402

__all__ = ["session"]
