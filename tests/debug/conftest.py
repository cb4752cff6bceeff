"""Every test here has a session of its own on the one Spark that all share."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.streams")

from tests.streams import session  # noqa: E402

__all__ = ["session"]
