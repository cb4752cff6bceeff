"""Pickling of functions and classes of the tests for Spark's Python workers."""

from __future__ import annotations

import sys

from pyspark import cloudpickle


def send_by_value(module_name: str) -> None:
    """Pickle the functions and classes of a module by value: workers cannot import the tests."""
    cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
        sys.modules[module_name]
    )
