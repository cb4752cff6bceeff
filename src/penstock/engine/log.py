"""The one log level that Python lacks and the reference uses."""

from __future__ import annotations

import logging

TRACE = 5
"""Finer than DEBUG."""

logging.addLevelName(TRACE, "TRACE")
