"""The version of Penstock that is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("penstock")
except PackageNotFoundError:  # run from a checkout that was never installed
    VERSION = "0+unknown"
