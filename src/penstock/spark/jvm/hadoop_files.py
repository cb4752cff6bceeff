"""Checkpoint files on any Hadoop file system: HDFS, S3, ABFS, GCS."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError

from penstock.checkpoint import CheckpointFiles
from penstock.spark.jvm.gateway import Jvm

_ALREADY_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
_NOT_FOUND = "java.io.FileNotFoundException"
_IO_ERROR = "java.io.IOException"


class HadoopFiles(CheckpointFiles):
    """Accesses a checkpoint through Spark's own CheckpointFileManager, as Spark does."""

    def __init__(self, jvm: Jvm, root: str, hadoop_conf: Any) -> None:
        self._jvm = jvm
        self._root = root.rstrip("/")
        self._path_class = jvm.cls("org.apache.hadoop.fs.Path")
        self._manager = jvm.module("CheckpointFileManager").create(
            self._path_class(root), hadoop_conf
        )

    @property
    def root(self) -> str:
        return self._root

    def create_if_absent(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        with self._errors(name):
            if self._manager.exists(path):
                return False
            # Checked first, because Hadoop's file systems create missing parent directories.
            if not self._manager.exists(path.getParent()):
                directory = path.getParent().toString()
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
            return self._create(path, data)

    def make_directory(self, name: str) -> None:
        path = self._path(name) if name else self._path_class(self._root)
        with self._errors(name):
            if not self._manager.exists(path):
                self._manager.mkdirs(path)

    def _create(self, path: Any, data: bytes) -> bool:
        if self._root.startswith("file:"):
            # Hadoop's local file system would check the new file against a stale checksum file.
            self._manager.delete(self._path_class(path.getParent(), f".{path.getName()}.crc"))
        output = None
        try:
            output = self._manager.createAtomic(path, False)
            output.write(data)
            output.close()
        except Py4JJavaError as exc:
            if output is not None:
                output.cancel()
            if self._jvm.is_instance(exc.java_exception, _ALREADY_EXISTS):
                return False
            raise
        return True

    def read(self, name: str) -> bytes:
        with self._errors(name):
            stream = self._manager.open(self._path(name))
            try:
                return bytes(self._jvm.cls("org.apache.commons.io.IOUtils").toByteArray(stream))
            finally:
                stream.close()

    def exists(self, name: str) -> bool:
        with self._errors(name):
            return bool(self._manager.exists(self._path(name)))

    def list_names(self, directory: str) -> list[str]:
        return [str(s.getPath().getName()) for s in self._statuses(directory) if s.isFile()]

    def list_directories(self, directory: str) -> list[str]:
        return [str(s.getPath().getName()) for s in self._statuses(directory) if s.isDirectory()]

    def is_empty(self, directory: str) -> bool:
        return not self._statuses(directory)

    def delete(self, name: str) -> None:
        with self._errors(name):
            self._manager.delete(self._path(name))

    def delete_all(self) -> None:
        with self._errors(""):
            self._manager.delete(self._path_class(self._root))

    def _statuses(self, directory: str) -> list[Any]:
        try:
            with self._errors(directory):
                return list(self._manager.list(self._path(directory)))
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translate Java's I/O exceptions to Python's."""
        try:
            yield
        except Py4JJavaError as exc:
            cause = exc.java_exception
            if self._jvm.is_instance(cause, _NOT_FOUND):
                raise FileNotFoundError(self.path(name)) from exc
            if self._jvm.is_instance(cause, _IO_ERROR):
                raise OSError(f"{self.path(name)}: {cause.toString()}") from exc
            raise

    def _path(self, name: str) -> Any:
        return self._path_class(self.path(name))
