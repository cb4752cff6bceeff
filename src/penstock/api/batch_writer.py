"""A sink that writes each batch with Spark's own batch writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from penstock.connectors import PythonSink

_PATH = "path"


@dataclass(frozen=True)
class BatchWriter(PythonSink):
    """Writes each batch as `df.write` does, to a path or a table. The methods return a copy.

    With `mode` `append`, delivery is at least once, unless the format detects repeated batches.
    With `by_batch`, batch 7 replaces the directory `<path>/<by_batch>=7`, so that a batch that is
    written again is there once; a reader of the path has `by_batch` as a column. The path must be
    of one query only: one with another checkpoint replaces its batches, which have the same ids.

        penstock.BatchWriter("parquet").option("path", "/lake/orders").partitionBy("day")
    """

    source: str | None = None
    save_mode: str = "append"
    settings: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    table_name: str | None = None
    batch_column: str | None = None

    def format(self, source: str) -> BatchWriter:
        """Set the format; by default `spark.sql.sources.default`."""
        return replace(self, source=source)

    def mode(self, save_mode: str) -> BatchWriter:
        """Set the mode: `append` (the default), `overwrite`, `ignore` or `error`."""
        return replace(self, save_mode=save_mode)

    def option(self, key: str, value: bool | float | int | str) -> BatchWriter:
        """Set an option of the format, such as `path`."""
        others = {k: v for k, v in self.settings.items() if k.lower() != key.lower()}
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, settings={**others, key: text})

    def partitionBy(self, *columns: str) -> BatchWriter:
        """Set the columns by which the output is partitioned."""
        return replace(self, partition_columns=columns)

    def table(self, name: str) -> BatchWriter:
        """Write to a table, as `saveAsTable` does, instead of a path."""
        return replace(self, table_name=name)

    def by_batch(self, column: str = "batch") -> BatchWriter:
        """Write each batch to a directory of its own below the path, replacing it if it exists."""
        return replace(self, batch_column=column)

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        options = dict(self.settings)
        writer = df.write.mode(self.save_mode)
        if self.source is not None:
            writer = writer.format(self.source)
        if self.partition_columns:
            writer = writer.partitionBy(*self.partition_columns)
        if self.batch_column is not None:
            if self.batch_directories is None:
                raise ValueError("by_batch() needs the option path, and no table")
            options = {key: value for key, value in options.items() if key.lower() != _PATH}
            options[_PATH] = f"{self.batch_directories}{batch_id}"
            writer = writer.mode("overwrite")
        writer = writer.options(**options)
        if self.table_name is not None:
            writer.saveAsTable(self.table_name)
        else:
            writer.save()

    @property
    def batch_directories(self) -> str | None:
        """With `by_batch`, the directory of each batch, without the batch id; else None."""
        if self.batch_column is None or self._path is None or self.table_name is not None:
            return None
        return f"{self._path.rstrip('/')}/{self.batch_column}="

    @property
    def _path(self) -> str | None:
        return next((value for key, value in self.settings.items() if key.lower() == _PATH), None)

    def secret_options(self) -> Mapping[str, str]:
        return self.settings

    def __str__(self) -> str:
        target = self.table_name or self._path or ""
        return f"BatchWriter[{' '.join(filter(None, (self.source, target)))}]"
