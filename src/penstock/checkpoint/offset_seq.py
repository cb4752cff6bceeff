"""The offset log: the end offsets of each batch. An entry is written before its batch runs.

A file of format `v1` is lines, with no newline at the end:

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1502872590006,"conf":{...}}     or an empty line
    51                                                                       one line a source,
    -                                                                        `-` for no offset

Format `v2` names its sources: each offset line is `<source id>:<offset>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import integer_field, object_from_json, to_json
from penstock.checkpoint.known_files import KnownFiles
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.versions import LogVersions, parse_version
from penstock.errors import IncompleteLogError, MalformedLogError

VOID_OFFSET = "-"

_WHAT = "The metadata line of an offset log entry"


@dataclass(frozen=True)
class OffsetSeqMetadata:
    """The watermark, the timestamp and the settings that a batch runs with.

    `conf` keeps the order it has in the file, so that a rewritten entry is identical byte for byte.
    `further` has fields of newer formats, unchanged.
    """

    batch_watermark_ms: int = 0
    batch_timestamp_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> OffsetSeqMetadata:
        """Parse the second line of an entry. Missing fields are 0 or empty, as in Spark."""
        fields = object_from_json(text, _WHAT)
        watermark = integer_field(fields, "batchWatermarkMs", _WHAT)
        timestamp = integer_field(fields, "batchTimestampMs", _WHAT)
        conf = fields.get("conf", {})
        if not isinstance(conf, dict) or not all(isinstance(v, str) for v in conf.values()):
            raise MalformedLogError(f"{_WHAT} has 'conf' = {conf!r}, which is not a map of strings")
        known = {"batchWatermarkMs", "batchTimestampMs", "conf"}
        return cls(watermark, timestamp, conf, {k: v for k, v in fields.items() if k not in known})

    @property
    def json(self) -> str:
        """The second line of an entry."""
        return to_json(
            {
                "batchWatermarkMs": self.batch_watermark_ms,
                "batchTimestampMs": self.batch_timestamp_ms,
                "conf": dict(self.conf),
                **self.further,
            }
        )

    def at(self, *, watermark_ms: int, timestamp_ms: int) -> OffsetSeqMetadata:
        """The metadata for another batch: the same settings, without fields of a single batch."""
        return OffsetSeqMetadata(
            watermark_ms,
            timestamp_ms,
            self.conf,
            {k: v for k, v in self.further.items() if k != "controlBatchInfo"},
        )


@dataclass(frozen=True)
class OffsetSeq:
    """The end offsets of a batch, one per source in the order of the plan; None for no offset.

    With `source_ids`, the names of the sources, the entry has format `v2`. Without, sources are
    identified by their position and the format is `v1`.
    """

    offsets: tuple[str | None, ...]
    metadata: OffsetSeqMetadata | None = None
    source_ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.source_ids is not None and len(self.source_ids) != len(self.offsets):
            raise ValueError(f"{len(self.offsets)} offsets for {len(self.source_ids)} source ids")

    @property
    def version(self) -> int:
        return 1 if self.source_ids is None else 2

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the sources, in the order of `offsets`: their ids, else their positions."""
        if self.source_ids is not None:
            return self.source_ids
        return tuple(str(position) for position in range(len(self.offsets)))

    def __str__(self) -> str:
        shown = [VOID_OFFSET if offset is None else offset for offset in self.offsets]
        if self.source_ids is None:
            return f"[{', '.join(shown)}]"
        named = (f"{name}: {offset}" for name, offset in zip(self.source_ids, shown, strict=True))
        return f"{{{', '.join(named)}}}"


class OffsetSeqLog(MetadataLog[OffsetSeq]):
    """The write-ahead log: `offsets/N` defines batch N."""

    def __init__(
        self,
        files: CheckpointFiles,
        directory: str = "offsets",
        known: KnownFiles | None = None,
        versions: LogVersions | None = None,
    ) -> None:
        super().__init__(files, directory, known)
        self._versions = versions or LogVersions()

    def serialize(self, entry: OffsetSeq) -> bytes:
        lines = [f"v{entry.version}", entry.metadata.json if entry.metadata else ""]
        offsets = [VOID_OFFSET if offset is None else offset for offset in entry.offsets]
        if entry.source_ids is not None:
            offsets = [f"{i}:{o}" for i, o in zip(entry.source_ids, offsets, strict=True)]
        for offset in offsets:
            if "\n" in offset or "\r" in offset:
                raise ValueError(f"an offset must be one line of JSON, not {offset!r}")
        return "\n".join([*lines, *offsets]).encode()

    def deserialize(self, data: bytes) -> OffsetSeq:
        lines = decode_lines(data)
        if not lines:
            raise IncompleteLogError("Incomplete log file")
        read = self._versions
        version = parse_version(lines[0], read.newest_offsets, has_conditions=read.has_conditions)
        if len(lines) < 2:
            raise IncompleteLogError("Incomplete log file: it ends after the version line")
        text = lines[1].strip()
        metadata = OffsetSeqMetadata.from_json(text) if text else None
        if version == 1:
            return OffsetSeq(tuple(map(_parse_offset, lines[2:])), metadata)
        if metadata is None:
            raise MalformedLogError("VERSION_2 offset log requires metadata")
        pairs = [_split_named(line) for line in lines[2:]]
        offsets = tuple(_parse_offset(offset) for _, offset in pairs)
        return OffsetSeq(offsets, metadata, tuple(name for name, _ in pairs))

    def metadata_of(self, batch_id: int) -> OffsetSeqMetadata | None:
        """The metadata of a batch; None if there is no entry or it has no metadata."""
        entry = self.get(batch_id) if batch_id >= 0 else None
        return entry.metadata if entry else None


def decode_lines(data: bytes) -> list[str]:
    """The lines of a log file; a final line end is ignored. Raises MalformedLogError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise MalformedLogError(f"Log file was malformed: not UTF-8 text ({exc})") from exc
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _parse_offset(line: str) -> str | None:
    return None if line == VOID_OFFSET else line


def _split_named(line: str) -> tuple[str, str]:
    name, colon, offset = line.partition(":")
    if not colon:
        raise MalformedLogError(f"Invalid OffsetMap format: {line}")
    return name, offset
