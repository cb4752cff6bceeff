"""Gives every test its own session on the shared SparkContext."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.streams", "tests.sinks.sink_contract", "tests.sinks.jdbc_contract"
)

from tests.streams import session  # noqa: E402

__all__ = ["session"]
