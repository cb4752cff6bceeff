"""The log of a file source (`sources/<n>`) or a file sink (`_spark_metadata`).

It has one file per entry. At a fixed interval a file `N.compact` has all entries up to N. To read
all entries up to K, Spark needs the newest compact file at or below K and every file after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.offset_seq import decode_lines
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
            number = file_number(file.name.removesuffix(COMPACT_SUFFIX))
            if number is not None and file.is_file():
                files[number] = file
        if isinstance(path, StorePath):
            path.tree.read_ahead(f"{path.key}/{file.name}" for file in files.values())
        return cls(path, files)

    @property
    def newest(self) -> int:
        """The number of the newest entry; -1 if there is none."""
        return max(self.files, default=-1)

    def is_compact(self, number: int) -> bool:
        return self.files[number].name.endswith(COMPACT_SUFFIX)

    def missing_up_to(self, number: int) -> list[range]:
        """The entries that are missing for Spark to read everything up to an entry."""
        compact = [n for n in self.files if n <= number and self.is_compact(n)]
        return self.gaps(range(max(compact, default=0), number + 1))

    def gaps(self, wanted: range) -> list[range]:
        """The consecutive numbers without a file, ascending."""
        bounds = (wanted.start - 1, *sorted(n for n in self.files if n in wanted), wanted.stop)
        return [range(a + 1, b) for a, b in pairwise(bounds) if b - a > 1]

    def beyond(self, number: int) -> list[CheckpointPath]:
        """The files of later entries, newest first. Raises SurgeryRefusedError if Spark could not
        read the log without them."""
        missing = self.missing_up_to(number)
        if missing:
            why = self._why_missing(number, missing[0].start)
            raise SurgeryRefusedError(f"{self.path} cannot be cut back to entry {number}: {why}")
        return [self.files[n] for n in sorted(self.files, reverse=True) if n > number]

    def _why_missing(self, number: int, first: int) -> str:
        """Why Spark could not read everything up to entry `number`, of which `first` is missing."""
        if number > self.newest:
            return f"it has entries up to {self.newest} only." if self.files else "it has no entry."
        purged = "removed after it was compacted into a later file"
        is_purged = self._compact_after(first) is not None
        return (
            f"Spark would need {self.path / str(first)}, which "
            f"{f'was {purged}' if is_purged else 'is missing'}. {self._possible()}"
        )

    def _possible(self) -> str:
        usable = [n for n in sorted(self.files) if not self.missing_up_to(n)]
        if not usable:
            return "It cannot be cut back to any entry."
        return f"The oldest entry it can be cut back to is {usable[0]}."

    def entries(self, number: int) -> list[Any]:
        """The JSON values of an entry's file.

        Raises MalformedLogError if it cannot be parsed or was removed after the scan.
        """
        return [self._value(number, line) for line in self._lines(number)]

    def entries_between(self, after: int, last: int) -> list[dict[str, Any]]:
        """The JSON objects of the entries `after + 1` to `last`, in order.

        An entry without a file of its own is read from the compact file that contains it. Raises
        MalformedLogError if there is none.
        """
        found: list[dict[str, Any]] = []
        read: dict[int, dict[int, list[dict[str, Any]]]] = {}
        for number in range(after + 1, last + 1):
            holder = number if number in self.files else self._compact_after(number)
            if holder is None:
                raise MalformedLogError(f"{self.path} has no entry {number}")
            if holder not in read:
                read[holder] = self._by_number(holder)
            found += read[holder].get(number, ())
        return found

    @property
    def is_file_log(self) -> bool:
        """Whether the entries list files; other kinds of sources have other entries.

        Raises OSError if this is not known because files could not be read.
        """
        failure: OSError | None = None
        for number in sorted(
            self.files, key=lambda n: (self.is_compact(n), n)
        ):  # small files first
            try:
                lines = self._lines(number)
                if lines:
                    value = self._value(number, lines[0])
                    return isinstance(value, dict) and "path" in value
            except CheckpointError:
                continue
            except OSError as exc:
                failure = exc
        if failure is not None:
            raise failure
        return False

    def _lines(self, number: int) -> list[str]:
        """The lines of an entry's file after the version. Spark ignores a final line end."""
        path = self.files[number]
        try:
            lines = decode_lines(path.read_bytes())
        except FileNotFoundError as exc:
            raise MalformedLogError(f"{path} is gone") from exc
        except MalformedLogError as exc:
            raise MalformedLogError(f"{path}: {exc}") from exc
        parse_version(lines[0] if lines else "", 1)
        return lines[1:]

    def _value(self, number: int, line: str) -> Any:
        try:
            return json.loads(line)
        except ValueError as exc:
            path = self.files[number]
            raise MalformedLogError(f"{path} has a line that is not JSON: {line[:80]!r}") from exc

    def _by_number(self, holder: int) -> dict[int, list[dict[str, Any]]]:
        """The JSON objects of a file, by the number of the entry that they were written in."""
        found: dict[int, list[dict[str, Any]]] = {}
        for entry in self.entries(holder):
            if isinstance(entry, dict):
                found.setdefault(entry.get("batchId", -1), []).append(entry)
        return found

    def _compact_after(self, number: int) -> int | None:
        """The oldest compact file that has an entry without a file of its own."""
        return min((n for n in self.files if n > number and self.is_compact(n)), default=None)


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
