"""Copies the parts of a batch that are left out to a table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.checkpoint.quarantine_log import LeftOutPart
from penstock.engine.batch_parts import FilesPart, SourcePart
from penstock.engine.error_text import error_text, one_line
from penstock.engine.seam import PutAside
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sources.file_source import JvmFileSource

_logger = logging.getLogger(__name__)

_FILES = "_files"
"""The directory of copied files, which Spark does not take for a part of the table."""

ReadRows = Callable[[SourcePart], DataFrame]
"""Reads the rows of a part as the source returns them."""


class PartCopier:
    """Copies the parts of one batch to `<path>/query=<id>/batch=<n>/part=<k>`, as Parquet files.

    A file of a source is copied to `<path>/_files/<id>/<n>` byte for byte, because it may not be
    readable as rows. Earlier copies of the same batch are replaced.
    """

    def __init__(
        self, session: SparkStreamSession, query_id: str, aside: PutAside, read_rows: ReadRows
    ) -> None:
        self._session = session
        self._aside = aside
        self._read_rows = read_rows
        path = session.jvm.cls("org.apache.hadoop.fs.Path")(aside.record.path)
        files = path.getFileSystem(session.hadoop_conf())
        root = str(files.makeQualified(path).toString())
        batch_id = aside.request.batch_id
        self._table = f"{root}/query={query_id}/batch={batch_id}"
        self._files = f"{root}/{_FILES}/{query_id}/{batch_id}"

    def copy(self) -> None:
        for number, part in enumerate(self._aside.parts):
            recorded = self._aside.record.parts[number]
            if isinstance(part, FilesPart):
                copy, problem = self._copy_file(number, part)
                self._write(number, self._no_rows(), recorded, copy, problem)
            else:
                self._copy_rows(number, part, recorded)

    def _copy_file(self, number: int, part: FilesPart) -> tuple[str | None, str | None]:
        """Copy a file; returns where it is, or why it could not be copied."""
        [file] = part.files
        assert isinstance(part.source, JvmFileSource)
        path = part.source.path_of(file)
        copy = f"{self._files}/{number}-{path.getName()}"
        conf = self._session.hadoop_conf()
        try:
            self._session.jvm.java.start.copy(str(path.toString()), copy, conf)
        except Exception as exc:
            if self._session.is_interruption(exc) or path.getFileSystem(conf).exists(path):
                raise
            return None, one_line(error_text(exc))
        return copy, None

    def _copy_rows(self, number: int, part: SourcePart, recorded: LeftOutPart) -> None:
        """Copy rows as JSON; if they cannot be read, only what is known about them."""
        try:
            rows = self._read_rows(part).select(F.to_json(F.struct("*")).alias("row"))
            self._write(number, rows, recorded)
        except Exception as exc:
            if self._session.is_interruption(exc):
                raise
            problem = one_line(error_text(exc))
            self._write(number, self._no_rows(), recorded, problem=problem)
            _logger.warning("The rows of %s cannot be copied: %s", recorded, problem)

    def _no_rows(self) -> DataFrame:
        """One row without content."""
        return self._session.spark.range(1).select(F.lit(None).cast("string").alias("row"))

    def _write(
        self,
        number: int,
        rows: DataFrame,
        part: LeftOutPart,
        copy: str | None = None,
        problem: str | None = None,
    ) -> None:
        columns = {
            "source": _text(part.description),
            "start_offset": _text(part.start),
            "end_offset": _text(part.end),
            "file": _text(part.file),
            "file_size": F.lit(part.bytes).cast("long"),
            "copy": _text(copy),
            "error": _text(part.error),
            "read_error": _text(problem),
            "quarantined_at": F.expr(f"timestamp_millis({self._aside.record.time_ms})"),
        }
        table = rows.select("row", *(column.alias(name) for name, column in columns.items()))
        table.write.mode("overwrite").parquet(f"{self._table}/part={number}")


def _text(value: Any) -> Column:
    return F.lit(value).cast("string")
