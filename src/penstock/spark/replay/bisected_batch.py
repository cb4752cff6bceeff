"""A failed batch, bound to its sources, so that parts of it can be planned in a copy."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from penstock.checkpoint import CheckpointDirectory, LocalFiles, OffsetSeq, OffsetSeqMetadata
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.engine.batch_parts import BatchPart, FilesPart, OffsetsPart, SourcePart
from penstock.engine.data_stream import DataStream, SourceFile
from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.stream_progress import StreamProgress, positions_of
from penstock.spark.replay.replayed_batch import ReplayedBatch

_LOG_VERSION = 1


def location_of(path: Path) -> str:
    """A local path as a `file:` location, independent of Spark's default file system."""
    return f"file:{path}"


class BisectedBatch:
    """The batch of `entry`, which starts where `before` ends.

    Its sources are bound to `probe`, a copy of the checkpoint in which the batch is planned. Their
    offsets are read on the calling thread; no data is read. The files of file sources come from
    the source log of `original`, which is not modified.
    """

    def __init__(
        self, df: DataFrame, probe: Path, original: Path, entry: OffsetSeq, before: OffsetSeq | None
    ) -> None:
        self._batch = ReplayedBatch(df, location_of(probe), None)
        self._original = original
        self._entry = entry
        self._before = before

    def whole(self) -> BatchPart:
        """The part that is the whole batch."""
        directories = self._directories()
        return BatchPart(
            tuple(self._part(source, directories[source]) for source in self._batch.sources)
        )

    def plan(self, checkpoint: Path, batch_id: int, part: BatchPart) -> None:
        """Write a part to the offset log of a checkpoint as `batch_id`, which the next start runs.

        It has the batch's own settings and timestamp. Every part but the last has the watermark of
        the previous batch, so that no row is late and no window closes earlier than in the batch.
        """
        offsets: dict[DataStream, Offset] = {}
        for source_part in part.sources:
            end = self._end_in(checkpoint, source_part)
            if end is not None:
                offsets[source_part.source] = end
        plan = self._batch.plan
        names = None
        if self._entry.source_ids is not None:
            names = plan.source_ids or positions_of(plan.sources)
        entry = StreamProgress(offsets).to_offset_seq(plan.sources, self._metadata(part), names)
        offset_log = CheckpointDirectory(LocalFiles(checkpoint)).offset_log
        offset_log.make_directory()
        offset_log.add(batch_id, entry)

    def close(self) -> None:
        """Stop the sources."""
        self._batch.close()

    def _directories(self) -> dict[DataStream, str]:
        """The directory name of each source: its name, or the next number."""
        directories: dict[DataStream, str] = {}
        number = 0
        for leaf in self._batch.plan.leaves:
            if leaf.source not in directories:
                directories[leaf.source] = leaf.name or str(number)
                number += leaf.name is None
        return directories

    def _part(self, source: DataStream, directory: str) -> SourcePart:
        start, end = self._batch.start.get(source), self._batch.end.get(source)
        log = CompactibleLog.scan(self._original / "sources" / directory)
        first = log_offset(start.json if start else None)
        last = log_offset(end.json if end else None)
        if first is None or last is None or not log.is_file_log:
            return OffsetsPart(source, start, end)
        entries = log.entries_between(first, last)
        files = tuple(SourceFile(entry["path"], entry["timestamp"]) for entry in entries)
        return FilesPart(source, files, directory)

    def _end_in(self, checkpoint: Path, part: SourcePart) -> Offset | None:
        """The end offset of a part in a checkpoint. Writes its files, if any, to the source log."""
        if isinstance(part, OffsetsPart):
            return part.end
        assert isinstance(part, FilesPart)
        directory = checkpoint / "sources" / part.directory
        number = CompactibleLog.scan(directory).newest
        if part.files:
            number += 1
            self._log_files(directory, number, part.files)
        return SerializedOffset(f'{{"logOffset":{number}}}') if number >= 0 else None

    def _log_files(self, directory: Path, number: int, files: tuple[SourceFile, ...]) -> None:
        """Write the entry with Spark's FileStreamSourceLog, which compacts the log when due."""
        jvm, session = self._batch.session.jvm, self._batch.session.jsession
        log = jvm.new(
            "FileStreamSourceLog",
            metadataLogVersion=_LOG_VERSION,
            sparkSession=session,
            path=location_of(directory),
        )
        entries = [
            jvm.new("FileEntry", path=file.path, timestamp=file.timestamp, batchId=number)
            for file in files
        ]
        log.add(number, jvm.array(jvm.cls("FileEntry"), entries))

    def _metadata(self, part: BatchPart) -> OffsetSeqMetadata | None:
        recorded = self._entry.metadata
        if recorded is None or part.is_last:
            return recorded
        before = self._before.metadata if self._before else None
        return recorded.at(
            watermark_ms=before.batch_watermark_ms if before else 0,
            timestamp_ms=recorded.batch_timestamp_ms,
        )
