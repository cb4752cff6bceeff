"""The Java classes of this package, compiled once per JVM by the compiler that Spark ships."""

from __future__ import annotations

from importlib import resources
from typing import Any

from penstock.spark.gateway import Jvm


def new_instance(jvm: Jvm, name: str, *arguments: Any) -> Any:
    """An object of the class in `java/<name>.java`, which has one constructor."""
    constructor = jvm.once(f"constructor of {name}", lambda: _compiled(jvm, name))
    return constructor.newInstance(jvm.array(jvm.cls("java.lang.Object"), arguments))


def _compiled(jvm: Jvm, name: str) -> Any:
    text = resources.files("penstock.spark").joinpath("java", f"{name}.java").read_text()
    compiler = jvm.cls("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(
        jvm.cls("java.lang.Thread").currentThread().getContextClassLoader()
    )
    compiler.cook(text)
    return compiler.getClassLoader().loadClass(name).getConstructors()[0]
