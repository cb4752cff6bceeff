"""The first line of every log file: `v` and a version number."""

from __future__ import annotations

import re

from penstock.errors import Condition, MalformedLogError, UnsupportedLogVersionError

_SQL_STATE = "KD002"
_VERSION_LINE = re.compile(r"v(\d+)")


def parse_version(line: str, newest_supported: int) -> int:
    """Parse the first line of a log file.

    Raises MalformedLogError if it is not a version, UnsupportedLogVersionError if the version is
    above `newest_supported`.
    """
    match = _VERSION_LINE.fullmatch(line)
    version = int(match.group(1)) if match else 0
    if version <= 0:
        raise MalformedLogError(
            f"Log file was malformed: failed to read correct log version from {line}.",
            Condition("MALFORMED_LOG_FILE", _SQL_STATE, {"text": line}),
        )
    if version > newest_supported:
        raise UnsupportedLogVersionError(
            f"UnsupportedLogVersion. The maximum supported log version is v{newest_supported}, "
            f"but encountered v{version}. The log file was produced by a newer version of Spark "
            "and cannot be read by this version. You need to upgrade.",
            Condition(
                "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
                _SQL_STATE,
                {"maxSupportedVersion": str(newest_supported), "version": str(version)},
            ),
        )
    return version
