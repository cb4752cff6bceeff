"""Tests on Spark get their own session; the others start no JVM."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.streams")

from tests.checkpoint.tools.buckets import Buckets, use_buckets  # noqa: E402
from tests.streams import session  # noqa: E402

__all__ = ["session"]


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """Object stores in memory, for every location that is not local."""
    return use_buckets(monkeypatch)
