"""The contract suite is no test module by its name, and still is to explain what failed."""

import pytest

pytest.register_assert_rewrite("tests.checkpoint.file_contract")
