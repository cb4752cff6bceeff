"""Java classes that a test adds to the class path of the driver. Tasks do not find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.spark.jvm.gateway import Jvm


def add_driver_classes(jvm: Jvm, source: Path, folder: Path) -> Any:
    """Compile a file, once in a JVM, and return the class loader that has its classes."""
    return jvm.once(f"test classes of {source.name}", lambda: _compile(jvm, source, folder))


def _compile(jvm: Jvm, source: Path, folder: Path) -> Any:
    loader = jvm.cls("java.lang.Thread").currentThread().getContextClassLoader()
    compiler = jvm.cls("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(loader)
    compiler.cook(source.read_text())
    for name, code in compiler.getBytecodes().items():
        (folder / f"{name}.class").write_bytes(bytes(code))
    loader.addURL(jvm.cls("java.io.File")(str(folder)).toURI().toURL())
    return loader
