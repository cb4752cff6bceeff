"""These are no test modules by their names, and still are to explain what failed."""

import pytest

pytest.register_assert_rewrite(
    "tests.checkpoint.file_contract", "tests.checkpoint.tools.checkpoints"
)
