"""Enables assertion rewriting in modules that are not named like tests."""

import pytest

pytest.register_assert_rewrite(
    "tests.checkpoint.file_contract", "tests.checkpoint.tools.checkpoints"
)
