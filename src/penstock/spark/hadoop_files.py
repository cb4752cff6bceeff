"""Checkpoint files wherever Hadoop can write: HDFS, S3, ABFS, GCS and the like."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from penstock.checkpoint import CheckpointFiles
from penstock.spark.gateway import Jvm

_ALREADY_EXISTS = "FileAlreadyExistsException"


class HadoopFiles(CheckpointFiles):
    """A checkpoint root behind Spark's own CheckpointFileManager, so that it behaves as there."""

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
        if self._manager.exists(path):
            return False
        parent = path.getParent()
        if not self._manager.exists(parent):
            self._manager.mkdirs(parent)
        output = None
        try:
            output = self._manager.createAtomic(path, False)
            output.write(data)
            output.close()
        except Py4JJavaError as exc:
            if output is not None:
                output.cancel()
            if _ALREADY_EXISTS in exc.java_exception.getClass().getName():
                return False
            raise
        return True

    def read(self, name: str) -> bytes:
        path = self._path(name)
        if not self._manager.exists(path):
            raise FileNotFoundError(self.path(name))
        stream = self._manager.open(path)
        try:
            return bytes(self._jvm.view.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def exists(self, name: str) -> bool:
        return bool(self._manager.exists(self._path(name)))

    def list_names(self, directory: str) -> list[str]:
        return [str(s.getPath().getName()) for s in self._statuses(directory) if s.isFile()]

    def is_empty(self, directory: str) -> bool:
        return not self._statuses(directory)

    def delete(self, name: str) -> None:
        self._manager.delete(self._path(name))

    def delete_all(self) -> None:
        self._manager.delete(self._path_class(self._root))

    def _statuses(self, directory: str) -> list[Any]:
        path = self._path(directory)
        return list(self._manager.list(path)) if self._manager.exists(path) else []

    def _path(self, name: str) -> Any:
        return self._path_class(self.path(name))
