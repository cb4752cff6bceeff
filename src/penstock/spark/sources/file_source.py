"""Spark's file source, of which some files of a batch can be read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from penstock.engine.data_stream import SourceFile
from penstock.engine.offsets import Offset
from penstock.spark.jvm.java_side import records_of
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sources.spark_sources import JvmSource, V1Data

_LOG_VERSION = 1
_FIRST_ENTRY = '{"logOffset":0}'


class JvmFileSource(JvmSource):
    """Spark's FileStreamSource. Its log, below `path`, has the files of every batch."""

    def __init__(
        self,
        session: SparkStreamSession,
        path: str,
        options: Mapping[str, str],
        open_at: Callable[[str], Any],
    ) -> None:
        """`open_at` opens another source of the same format and options, with a log elsewhere."""
        super().__init__(session.jvm, open_at(path), options)
        self._session = session
        self._path = path
        self._open_at = open_at
        self._jlog = session.jvm.java.start.logOf(self.jstream)

    def commit(self, end: Offset) -> None:
        super().commit(end)
        entry = _log_offset(end)
        if self._jlog is not None and (entry + 1) % self._compact_interval == 0:
            self._jlog.deleteExpired(entry)

    @cached_property
    def _compact_interval(self) -> int:
        return int(self._jlog.interval())

    def files_between(self, start: Offset | None, end: Offset) -> Sequence[SourceFile] | None:
        first = -1 if start is None else _log_offset(start)
        answer = self._jvm.java.start.filesBetween(
            self._log(self._path), first + 1, _log_offset(end)
        )
        return [SourceFile(path, int(timestamp)) for path, timestamp in records_of(answer)]

    def get_files(self, files: Sequence[SourceFile]) -> V1Data:
        """The data of some files, read by a source whose log lists only these."""
        jvm = self._jvm
        with tempfile.TemporaryDirectory(prefix="penstock-files-") as directory:
            location = f"file:{directory}/log"
            entries = [
                jvm.new("FileEntry", path=file.path, timestamp=file.timestamp, batchId=0)
                for file in files
            ]
            self._log(location).add(0, jvm.array(jvm.cls("FileEntry"), entries))
            jsource = self._open_at(location)
            try:
                return self._batch_of(jsource, None, jvm.new("SerializedOffset", json=_FIRST_ENTRY))
            finally:
                jsource.stop()

    def size_of(self, file: SourceFile) -> int | None:
        path = self.path_of(file)
        try:
            return int(path.getFileSystem(self._session.hadoop_conf()).getFileStatus(path).getLen())
        except Exception:
            return None

    def path_of(self, file: SourceFile) -> Any:
        """The Hadoop path of a file, whose name in the log is percent-encoded."""
        uri = self._jvm.cls("java.net.URI")(file.path)
        return self._jvm.cls("org.apache.hadoop.fs.Path")(uri)

    def _log(self, path: str) -> Any:
        return self._jvm.new(
            "FileStreamSourceLog",
            metadataLogVersion=_LOG_VERSION,
            sparkSession=self._session.jsession,
            path=path,
        )


def _log_offset(offset: Offset) -> int:
    """The number in an offset of a file source: `{"logOffset":7}`, or 7 in old checkpoints."""
    value = json.loads(offset.json)
    return int(value["logOffset"] if isinstance(value, dict) else value)
