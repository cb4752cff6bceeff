"""The Hadoop file system for the state files of a local checkpoint (docs/adr/0030)."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError

from penstock.errors import UnsupportedError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import bytecode
from penstock.spark.jvm.java_sources import file_system_source

_logger = logging.getLogger(__name__)

RAW_FILE_SYSTEM = "org.apache.hadoop.fs.RawLocalFileSystem"
"""Forks a `chmod` for every file and directory that it creates."""

_PACKAGE = "org.apache.hadoop.fs"


def local_file_system(jvm: Jvm) -> str:
    """The name of a file system class that forks no process to create a file.

    It is defined in the class loader of Hadoop, once per JVM: every thread of this JVM finds it,
    those of tasks too, and no other JVM does. If that is not possible, `RAW_FILE_SYSTEM`.
    """
    return str(jvm.once("local file system", lambda: _define(jvm)))


def _define(jvm: Jvm) -> str:
    source = file_system_source()
    name = f"{_PACKAGE}.{source.name.removesuffix('.java')}"
    try:
        code = bytecode(jvm, [source], _PACKAGE)[name]
        jvm.java.hadoop_classes.define(name, code)
    except (UnsupportedError, Py4JError):
        _logger.info("State files are written with a chmod process for each", exc_info=True)
        return RAW_FILE_SYSTEM
    return name
