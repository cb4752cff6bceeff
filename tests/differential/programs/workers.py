"""How functions and classes of the tests get to Spark's Python workers."""

from __future__ import annotations

import sys

from pyspark import cloudpickle


def send_by_value(module_name: str) -> None:
    """Let what a module defines be pickled whole: workers do not have the tests on their path."""
    cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
        sys.modules[module_name]
    )
