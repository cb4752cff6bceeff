"""The first line of every log file: `v` and a version number."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import Condition, MalformedLogError, UnsupportedLogVersionError

_SQL_STATE = "KD002"
_VERSION_LINE = re.compile(r"v(\d+)")


@dataclass(frozen=True)
class LogVersions:
    """The versions of the two logs that can be read.

    The commit log can be read up to `newest_commits`, or in version `only_commits` alone.
    `has_conditions` says whether Spark's errors about other versions have error conditions.
    """

    newest_offsets: int = 2
    newest_commits: int = 3
    only_commits: int | None = None
    has_conditions: bool = True


def parse_version(
    line: str, newest_supported: int, only: int | None = None, *, has_conditions: bool = True
) -> int:
    """Parse the first line of a log file.

    Raises MalformedLogError if it is not a version, UnsupportedLogVersionError if the version is
    above `newest_supported`, or is not `only`. The errors have a condition if `has_conditions`.
    """
    match = _VERSION_LINE.fullmatch(line)
    version = int(match.group(1)) if match else 0
    if version <= 0:
        raise MalformedLogError(
            f"Log file was malformed: failed to read correct log version from {line}.",
            Condition("MALFORMED_LOG_FILE", _SQL_STATE, {"text": line}) if has_conditions else None,
        )
    if only is not None and version != only:
        raise UnsupportedLogVersionError(
            f"UnsupportedLogVersion. The only supported log version is v{only}, but encountered "
            f"v{version}.",
            Condition(
                "INVALID_LOG_VERSION.EXACT_MATCH_VERSION",
                _SQL_STATE,
                {"matchVersion": str(only), "version": str(version)},
            ),
        )
    if version > newest_supported and not has_conditions:
        raise UnsupportedLogVersionError(
            f"UnsupportedLogVersion: maximum supported log version is v{newest_supported}, but "
            f"encountered v{version}. The log file was produced by a newer version of Spark and "
            "cannot be read by this version. Please upgrade."
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
