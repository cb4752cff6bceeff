"""Reads a Delta table from its log, without Spark and without Delta."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet

Row = dict[str, Any]


@dataclass(frozen=True)
class DeltaCommit:
    """One version of a table: its actions, in order."""

    table: Path
    version: int
    actions: tuple[Mapping[str, Any], ...]

    @property
    def info(self) -> Mapping[str, Any]:
        """What was done: operation, parameters, metrics."""
        return self._first("commitInfo") or {}

    @property
    def transaction(self) -> tuple[str, int] | None:
        """The query and the batch that wrote it; None if no query did."""
        found = self._first("txn")
        return None if found is None else (found["appId"], found["version"])

    @property
    def added(self) -> dict[str, Mapping[str, Any]]:
        """The files that it adds, with the values of their partition columns."""
        return {add["path"]: add["partitionValues"] for add in self._all("add")}

    @property
    def removed(self) -> set[str]:
        return {remove["path"] for remove in self._all("remove")}

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The columns of the table as JSON, if this version sets them."""
        found = self._first("metaData")
        return None if found is None else json.loads(found["schemaString"])

    def rows(self) -> list[Row]:
        """The rows of the files that it adds."""
        return [row for path, values in self.added.items() for row in _rows(self, path, values)]

    def _all(self, kind: str) -> Iterator[Mapping[str, Any]]:
        return (action[kind] for action in self.actions if kind in action)

    def _first(self, kind: str) -> Mapping[str, Any] | None:
        return next(self._all(kind), None)


def commits(table: Path) -> list[DeltaCommit]:
    """The versions of a table, oldest first; none if there is no table.

    All of them must be in the log: Delta keeps them for thirty days.
    """
    found = []
    for path in sorted((table / "_delta_log").glob("[0-9]*.json")):
        actions = tuple(map(json.loads, path.read_text().splitlines()))
        found.append(DeltaCommit(table, int(path.stem), actions))
    versions = [commit.version for commit in found]
    assert versions == list(range(len(versions))), f"the log of {table} has gaps: {versions}"
    return found


def current_rows(table: Path) -> list[Row]:
    """The rows of the newest version of a table."""
    files: dict[str, tuple[DeltaCommit, Mapping[str, Any]]] = {}
    for commit in commits(table):
        for path in commit.removed:
            files.pop(path, None)
        files |= {path: (commit, values) for path, values in commit.added.items()}
    return [row for path, (commit, values) in files.items() for row in _rows(commit, path, values)]


def _rows(commit: DeltaCommit, path: str, values: Mapping[str, Any]) -> list[Row]:
    file = commit.table / unquote(path)
    rows = pyarrow.parquet.ParquetFile(file).read().to_pylist()
    return [{**row, **values} for row in rows]
