"""Converts between the parts of a batch and the durable record of those that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.checkpoint.quarantine_log import KeptRange, LeftOutPart, QuarantineRecord
from penstock.engine.batch_context import BatchContext
from penstock.engine.batch_parts import BatchPart, FilesPart, OffsetsPart, SourcePart
from penstock.engine.data_stream import DataStream, SourceFile
from penstock.engine.offsets import Offset
from penstock.errors import MalformedLogError

Keys = Mapping[DataStream, str]
"""The name of each source in the offset log or, without names, its position in the plan."""


def source_keys(sources: Sequence[DataStream], names: Sequence[str] | None) -> Keys:
    """The keys of the sources of a plan; of a source that occurs twice, the first."""
    keys: dict[DataStream, str] = {}
    for position, source in enumerate(sources):
        keys.setdefault(source, str(position) if names is None else names[position])
    return keys


def whole_batch(context: BatchContext) -> BatchPart:
    """The part that is the whole batch, with the sources that have new data."""
    parts: list[SourcePart] = []
    for source, end in context.end_offsets.items():
        start = context.start_offsets.get(source)
        if start == end:
            continue
        files = source.files_between(start, end)
        if files is None:
            parts.append(OffsetsPart(source, start, end))
        else:
            parts.append(FilesPart(source, tuple(files)))
    return BatchPart(tuple(parts))


def recorded(part: SourcePart, keys: Keys, error: str) -> LeftOutPart:
    """The record of one part, which is the smallest of its source."""
    key, description = keys[part.source], str(part.source)
    if isinstance(part, FilesPart):
        [file] = part.files
        return LeftOutPart(
            key,
            description,
            error,
            part.unit,
            file=file.path,
            modified_ms=file.timestamp,
            bytes=part.source.size_of(file),
        )
    assert isinstance(part, OffsetsPart)
    return LeftOutPart(
        key,
        description,
        error,
        part.unit,
        start=_json(part.start),
        end=_json(part.end),
        size=part.size,
    )


def kept_ranges(rest: BatchPart, keys: Keys, left_out: Sequence[LeftOutPart]) -> list[KeptRange]:
    """The ranges that are kept of the sources that a part with offsets is left out of."""
    concerned = {part.source for part in left_out if part.file is None}
    return [
        KeptRange(keys[part.source], _json(part.start), part.end.json)
        for part in rest.with_data
        if isinstance(part, OffsetsPart) and keys[part.source] in concerned and part.end is not None
    ]


def parts_of(whole: BatchPart, keys: Keys, record: QuarantineRecord) -> list[SourcePart]:
    """The parts that a record says are left out of a batch."""
    sources = _sources(whole, keys)
    return [part_of(_find(sources, part.source), part) for part in record.parts]


def part_of(source: DataStream, part: LeftOutPart) -> SourcePart:
    """The part of a source that is recorded as left out."""
    if part.file is not None:
        return FilesPart(source, (SourceFile(part.file, part.modified_ms or 0),))
    return OffsetsPart(source, _offset(source, part.start), _offset(source, part.end))


def rest_of(whole: BatchPart, keys: Keys, record: QuarantineRecord) -> BatchPart:
    """What a record says is kept of a batch."""
    sources = _sources(whole, keys)
    # With the source: another source that reads the same file keeps it.
    left_out_files = {(part.source, part.file) for part in record.parts}
    in_ranges = {part.source for part in record.parts if part.file is None}
    parts: list[SourcePart] = []
    for part in whole.sources:
        if isinstance(part, FilesPart):
            key = keys[part.source]
            kept = tuple(f for f in part.files if (key, f.path) not in left_out_files)
            parts.append(FilesPart(part.source, kept))
        elif keys[part.source] not in in_ranges:
            parts.append(part)
    for kept_range in record.kept:
        source = _find(sources, kept_range.source)
        start, end = _offset(source, kept_range.start), _offset(source, kept_range.end)
        parts.append(OffsetsPart(source, start, end))
    return BatchPart(tuple(parts))


def _sources(whole: BatchPart, keys: Keys) -> dict[str, DataStream]:
    return {keys[part.source]: part.source for part in whole.sources}


def _find(sources: Mapping[str, DataStream], key: str) -> DataStream:
    if key not in sources:
        raise MalformedLogError(
            f"The record of the quarantine names the source {key!r}, which has no data in the "
            f"batch; those that have are {', '.join(sources)}. Have sources been added or removed?"
        )
    return sources[key]


def _json(offset: Offset | None) -> str | None:
    return None if offset is None else offset.json


def _offset(source: DataStream, json: str | None) -> Offset | None:
    return None if json is None else source.deserialize_offset(json)
