"""Object stores in memory. No test of this folder starts a JVM: those on Spark are elsewhere."""

from __future__ import annotations

import pytest

from tests.checkpoint.tools.buckets import Buckets, use_buckets


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """Object stores in memory, for every location that is not local."""
    return use_buckets(monkeypatch)
