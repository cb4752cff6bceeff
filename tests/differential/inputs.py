"""Writes the input files of a program, with fixed names, contents and modification times."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pyarrow.orc
import pyarrow.parquet

from tests.differential.program import File, Files

_FIRST_MODIFIED = 1_740_000_000
"""Spark's file source reads files in the order of their modification times."""


def arrive(
    directory: Path, inputs: Mapping[str, Files], format: str, number: int, rounds: int
) -> None:
    """Write the files of one round; the directory of every stream is created."""
    for name, files in inputs.items():
        target = directory / name
        target.mkdir(parents=True, exist_ok=True)
        for index in _share(len(files), number, rounds):
            file = files[index]
            if file is not None:
                _put(target / f"{index:02d}.{format}", file, format, _FIRST_MODIFIED + index)


def _share(count: int, number: int, rounds: int) -> range:
    """Which of `count` files belong to a round; earlier rounds have the larger shares."""
    base, extra = divmod(count, rounds)
    start = number * base + min(number, extra)
    return range(start, start + base + (1 if number < extra else 0))


def _put(path: Path, rows: File, format: str, modified: int) -> None:
    """Write a hidden file, set its modification time, and rename it to `path`."""
    hidden = path.with_name(f".{path.name}")
    _write(hidden, rows, format)
    os.utime(hidden, (modified, modified))
    hidden.rename(path)


def _write(path: Path, rows: File, format: str) -> None:
    match format:
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "text":
            path.write_text("".join(f"{row['value']}\n" for row in rows))
        case "csv":
            with path.open("w", newline="") as file:
                csv.writer(file).writerows(row.values() for row in rows)
        case "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
        case "orc":
            pyarrow.orc.write_table(pyarrow.Table.from_pylist(list(rows)), path)
        case _:
            raise AssertionError(f"no writer for {format} files")
