"""Checkpoint files in an object store, through the store's Hadoop connector.

What is used depends on what the connector can do, not on the version of Hadoop:

    S3A that lists the capability `fs.option.create.conditional.overwrite` (Hadoop 3.4.2 and newer):
        one PUT with `If-None-Match: *`, and the mark as metadata of the object
    GCS:
        `create` without overwriting, which uploads with the precondition that there is no object
    all others, as HDFS, ABFS and older S3A:
        Spark's CheckpointFileManager, see `hadoop_files`
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError

from penstock.checkpoint import ObjectStore
from penstock.checkpoint.object_store import missing
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of, joined

_logger = logging.getLogger(__name__)

_WRITES_EXCLUSIVELY = "gs"
_EXPECTED_TO_BE_CONDITIONAL = "s3a"
_ANSWERS_OF_ONE_THAT_EXISTS = (
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "java.nio.file.FileAlreadyExistsException",
)
_NOT_FOUND = "java.io.FileNotFoundException"
_IO_ERROR = "java.io.IOException"
_INTERRUPTIONS = (
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)


class HadoopStore(ObjectStore):
    """The objects below a location. Each method is one call to the JVM."""

    def __init__(self, jvm: Jvm, root: str, objects: Any) -> None:
        """`objects` is an instance of `StoreObjects`."""
        self._jvm = jvm
        self._root = root.rstrip("/")
        self._objects = objects
        self.keeps_marks = bool(objects.keepsMarks())

    @property
    def root(self) -> str:
        return self._root

    def put_if_absent(self, name: str, data: bytes, mark: str) -> None:
        with self._errors(name):
            self._objects.put(name, data, mark)

    def mark_of(self, name: str) -> str | None:
        with self._errors(name):
            mark = self._objects.mark(name)
            return None if mark is None else str(mark)

    def get(self, name: str) -> bytes:
        with self._errors(name):
            return bytes(self._objects.get(name))

    def exists(self, name: str) -> bool:
        with self._errors(name):
            return bool(self._objects.exists(name))

    def list_names(self, directory: str) -> list[str]:
        with self._errors(directory):
            return fields_of(str(self._objects.list(directory)))

    def list_directories(self, directory: str) -> list[str]:
        with self._errors(directory):
            return fields_of(str(self._objects.listDirectories(directory)))

    def is_empty(self, directory: str) -> bool:
        with self._errors(directory):
            return bool(self._objects.isEmpty(directory))

    def delete(self, names: Sequence[str]) -> None:
        with self._errors(names[0] if names else ""):
            self._objects.delete(joined(names))

    def delete_all(self) -> None:
        with self._errors(""):
            self._objects.deleteAll()

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translate Java's I/O exceptions to Python's."""
        try:
            yield
        except Py4JJavaError as exc:
            cause: Any = exc.java_exception
            kind = str(cause.getClass().getName())
            path = f"{self._root}/{name}"
            if kind in _ANSWERS_OF_ONE_THAT_EXISTS:
                raise FileExistsError(f"{path}: {cause.toString()}") from exc
            if kind in _INTERRUPTIONS:  # not a subclass: a time-out is one
                raise InterruptedError(f"{path}: {cause.toString()}") from exc
            if self._jvm.is_instance(cause, _NOT_FOUND):
                raise missing(path) from exc
            if self._jvm.is_instance(cause, _IO_ERROR):
                raise OSError(f"{path}: {cause.toString()}") from exc
            raise


def find_store(jvm: Jvm, root: str, hadoop_conf: Any) -> HadoopStore | None:
    """The store at a location; None if its files have to be written in another way.

    That is said once, in the log, for a store on which two queries could then write the same entry.
    """
    scheme = urlsplit(root).scheme
    if scheme in ("", "file", "hdfs"):
        return None
    objects = jvm.java.start.store(root, hadoop_conf)
    if objects.isConditional() or scheme == _WRITES_EXCLUSIVELY:
        return HadoopStore(jvm, root, objects)
    if scheme == _EXPECTED_TO_BE_CONDITIONAL:
        jvm.once(f"warned of {scheme}", lambda: _warn(jvm, root))
    return None


def _warn(jvm: Jvm, root: str) -> bool:
    version = jvm.cls("org.apache.hadoop.util.VersionInfo").getVersion()
    _logger.warning(
        "The log entries of %s are written by Spark's checkpoint file manager: the S3A connector "
        "of Hadoop %s does not write conditionally, or fs.s3a.create.conditional.enabled is "
        "false. A batch makes some 50 requests instead of 3, and two queries that use this "
        "checkpoint at the same time are not always detected. Hadoop 3.4.2 and newer can do it.",
        root,
        version,
    )
    return True
