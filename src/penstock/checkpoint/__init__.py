"""The files of a checkpoint: query id, offset log, commit log, lock.

Pure Python: reading or writing a checkpoint needs no JVM.
"""

from penstock.checkpoint.commit_log import CommitLog, CommitMetadata
from penstock.checkpoint.directory import CheckpointDirectory
from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.object_store import ObjectStore, ObjectStoreFiles
from penstock.checkpoint.offset_seq import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.checkpoint.versions import LogVersions

__all__ = [
    "CheckpointDirectory",
    "CheckpointFiles",
    "CommitLog",
    "CommitMetadata",
    "LocalFiles",
    "LogVersions",
    "MetadataLog",
    "ObjectStore",
    "ObjectStoreFiles",
    "OffsetSeq",
    "OffsetSeqLog",
    "OffsetSeqMetadata",
    "StreamMetadata",
]
