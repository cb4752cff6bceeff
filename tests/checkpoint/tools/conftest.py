"""Tests on real Spark have a session of their own; the others start no JVM."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.streams")

from tests.streams import session  # noqa: E402

__all__ = ["session"]
