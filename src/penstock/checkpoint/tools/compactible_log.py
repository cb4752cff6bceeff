"""The log of a file source (`sources/<n>`) or a file sink (`_spark_metadata`).

One file per entry; every so many entries one file, `N.compact`, holds all entries up to N. To know
all files up to entry K, Spark needs the newest compact file at or below K and everything after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.versions import parse_version
from penstock.errors import CheckpointError, MalformedLogError, SurgeryRefusedError

COMPACT_SUFFIX = ".compact"


@dataclass(frozen=True)
class CompactibleLog:
    """The entries in a directory: number -> file, and which of them are compact."""

    path: Path
    files: dict[int, Path]

    @classmethod
    def scan(cls, path: Path) -> CompactibleLog:
        """Read a directory; a missing one is an empty log."""
        files: dict[int, Path] = {}
        for file in sorted(path.iterdir()) if path.is_dir() else ():
            digits = file.name.removesuffix(COMPACT_SUFFIX)
            if digits.isdigit() and file.is_file():
                files[int(digits)] = file
        return cls(path, files)

    @property
    def newest(self) -> int:
        """The newest entry, -1 if there is none."""
        return max(self.files, default=-1)

    def is_compact(self, number: int) -> bool:
        return self.files[number].name.endswith(COMPACT_SUFFIX)

    def missing_up_to(self, number: int) -> list[int]:
        """The entries that Spark needs to know all files up to an entry, and that are not there."""
        missing = []
        for wanted in range(number, -1, -1):
            if wanted not in self.files:
                missing.append(wanted)
            elif self.is_compact(wanted):
                break
        return sorted(missing)

    def beyond(self, number: int) -> list[Path]:
        """The files of later entries, newest first. Raises SurgeryRefusedError if, without them,
        the log could not tell what it has seen."""
        missing = self.missing_up_to(number)
        if missing:
            raise SurgeryRefusedError(
                f"{self.path} cannot be cut back to entry {number}: Spark would need "
                f"{self.path / str(missing[0])}, which has been removed after it was compacted "
                f"into a later file. The oldest entry it can be cut back to is {self._oldest()}."
            )
        return [self.files[n] for n in sorted(self.files, reverse=True) if n > number]

    def entry_lines(self, number: int) -> list[str]:
        """The JSON lines of an entry's file.

        Raises MalformedLogError if it is torn, garbage, or has been removed since the scan.
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
        """What was logged after an entry up to another, both by number, in its order.

        An entry whose own file is gone is read from the file that it was compacted into. Raises
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
        """Whether this is a log of files, not what another kind of source keeps in its place."""
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
    """The log entry that a file source's offset names, -1 for no offset; None for another's."""
    if offset is None:
        return -1
    try:
        value = json.loads(offset)
    except ValueError:
        return None
    if isinstance(value, dict) and isinstance(value.get("logOffset"), int):
        return int(value["logOffset"])
    return None
