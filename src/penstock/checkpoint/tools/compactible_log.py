"""The log of a file source (`sources/<n>`) or a file sink (`_spark_metadata`).

It has one file per entry. At a fixed interval a file `N.compact` has all entries up to N. To read
all entries up to K, Spark needs the newest compact file at or below K and every file after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.versions import parse_version
from penstock.errors import CheckpointError, MalformedLogError, SurgeryRefusedError

COMPACT_SUFFIX = ".compact"


@dataclass(frozen=True)
class CompactibleLog:
    """The files of a log, by the number of their entry."""

    path: CheckpointPath
    files: dict[int, CheckpointPath]

    @classmethod
    def scan(cls, path: CheckpointPath) -> CompactibleLog:
        """List a directory. If it does not exist, the log is empty."""
        files: dict[int, CheckpointPath] = {}
        for file in sorted(path.iterdir()) if path.is_dir() else ():
            digits = file.name.removesuffix(COMPACT_SUFFIX)
            if digits.isdigit() and file.is_file():
                files[int(digits)] = file
        if isinstance(path, StorePath):
            path.tree.read_ahead(f"{path.key}/{file.name}" for file in files.values())
        return cls(path, files)

    @property
    def newest(self) -> int:
        """The number of the newest entry; -1 if there is none."""
        return max(self.files, default=-1)

    def is_compact(self, number: int) -> bool:
        return self.files[number].name.endswith(COMPACT_SUFFIX)

    def missing_up_to(self, number: int) -> list[int]:
        """The entries that are missing for Spark to read everything up to an entry."""
        missing = []
        for wanted in range(number, -1, -1):
            if wanted not in self.files:
                missing.append(wanted)
            elif self.is_compact(wanted):
                break
        return sorted(missing)

    def beyond(self, number: int) -> list[CheckpointPath]:
        """The files of later entries, newest first. Raises SurgeryRefusedError if Spark could not
        read the log without them."""
        missing = self.missing_up_to(number)
        if missing:
            raise SurgeryRefusedError(
                f"{self.path} cannot be cut back to entry {number}: Spark would need "
                f"{self.path / str(missing[0])}, which was removed after it was compacted into a "
                f"later file. The oldest entry it can be cut back to is {self._oldest()}."
            )
        return [self.files[n] for n in sorted(self.files, reverse=True) if n > number]

    def entry_lines(self, number: int) -> list[str]:
        """The JSON lines of an entry's file.

        Raises MalformedLogError if it cannot be parsed or was removed after the scan.
        """
        path = self.files[number]
        try:
            lines = path.read_text().split("\n")
        except FileNotFoundError as exc:
            raise MalformedLogError(f"{path} is gone") from exc
        except UnicodeDecodeError as exc:
            raise MalformedLogError(f"{path} is not text ({exc})") from exc
        parse_version(lines[0], 1)
        for line in lines[1:]:
            try:
                json.loads(line)
            except ValueError as exc:
                raise MalformedLogError(
                    f"{path} has a line that is not JSON: {line[:80]!r}"
                ) from exc
        return lines[1:]

    def entries_between(self, after: int, last: int) -> list[dict[str, Any]]:
        """The JSON objects of the entries `after + 1` to `last`, in order.

        An entry without a file of its own is read from the compact file that contains it. Raises
        MalformedLogError if there is none.
        """
        found = []
        for number in range(after + 1, last + 1):
            holders = [n for n in sorted(self.files) if n > number and self.is_compact(n)]
            holder = number if number in self.files else next(iter(holders), None)
            if holder is None:
                raise MalformedLogError(f"{self.path} has no entry {number}")
            entries = [json.loads(line) for line in self.entry_lines(holder)]
            found += [entry for entry in entries if entry.get("batchId") == number]
        return found

    @property
    def is_file_log(self) -> bool:
        """Whether the entries list files; other kinds of sources have other entries."""
        for number in sorted(self.files):
            try:
                lines = self.entry_lines(number)
            except CheckpointError:
                continue
            if lines:
                entry = json.loads(lines[0])
                return isinstance(entry, dict) and "path" in entry
        return False

    def _oldest(self) -> int:
        usable = [n for n in sorted(self.files) if not self.missing_up_to(n)]
        return usable[0] if usable else -1


def log_offset(offset: str | None) -> int | None:
    """The entry number in a file source's offset; -1 for no offset, None for another source."""
    if offset is None:
        return -1
    try:
        value = json.loads(offset)
    except ValueError:
        return None
    if isinstance(value, dict) and isinstance(value.get("logOffset"), int):
        return int(value["logOffset"])
    return None
