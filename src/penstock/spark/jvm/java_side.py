"""Penstock's Java classes, compiled in the JVM by Janino, the compiler that Spark ships."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from penstock.errors import UnsupportedError
from penstock.spark.jvm.java_sources import JavaFile, JavaUnit, java_files

if TYPE_CHECKING:
    from penstock.spark.jvm.gateway import Jvm

_PACKAGE = "penstock"
_FIELD_END = "\x1f"
_RECORD_END = "\x1e"
_PLACE = re.compile(r"Line (\d+), Column (\d+): ")


class JavaSide:
    """Instances of the compiled classes: `Start`, `Figures`, `Members` and `HadoopClasses`."""

    def __init__(self, jvm: Jvm) -> None:
        loader = compiled(jvm, java_files(jvm.line))
        self.start = new_instance(jvm, loader, "Start")
        self.figures = self.start.figures()
        self.members = new_instance(jvm, loader, "Members")
        self.hadoop_classes = new_instance(jvm, loader, "HadoopClasses")
        server = jvm.gateway.java_gateway_server
        server.addListener(new_instance(jvm, loader, "PromptAnswers"))


def members_alone(jvm: Jvm) -> Any:
    """An instance of `Members`, compiled without the classes that depend on Spark internals."""
    return jvm.once("members", lambda: _compile_members(jvm))


def _compile_members(jvm: Jvm) -> Any:
    files = [file for file in java_files(jvm.line) if file.name in ("Members.java", "Records.java")]
    package = f"{_PACKAGE}.alone"
    return new_instance(jvm, compiled(jvm, files, package), "Members", package)


def new_instance(jvm: Jvm, loader: Any, class_name: str, package: str = _PACKAGE) -> Any:
    """Create an object of a compiled class with its constructor without parameters."""
    found = loader.loadClass(f"{package}.{class_name}")
    no_classes = jvm.array(jvm.cls("java.lang.Class"), ())
    return found.getConstructor(no_classes).newInstance(jvm.no_arguments)


def compiled(jvm: Jvm, files: Sequence[JavaFile], package: str = _PACKAGE) -> Any:
    """Compile some files as one unit and return the class loader.

    A class that is compiled twice has to be in two packages: py4j caches methods by class name,
    and would call those of the first class with an object of the second.

    Raises UnsupportedError with the file, the line and the compiler's message if a member of Spark
    is missing or has moved.
    """
    return _cooked(jvm, files, package).getClassLoader()


def bytecode(jvm: Jvm, files: Sequence[JavaFile], package: str) -> dict[str, bytes]:
    """Compile some files as one unit without loading them: the class files by class name.

    Raises UnsupportedError as `compiled` does.
    """
    return dict(_cooked(jvm, files, package).getBytecodes())


def _cooked(jvm: Jvm, files: Sequence[JavaFile], package: str) -> Any:
    """Janino's compiler after it has compiled some files as one unit."""
    unit = JavaUnit(files, package, jvm.line)
    compiler = jvm.cls("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(
        jvm.cls("java.lang.Thread").currentThread().getContextClassLoader()
    )
    try:
        compiler.cook(unit.text)
    except Py4JJavaError as exc:
        raise UnsupportedError(
            "Penstock's Java classes do not compile against this Spark: "
            + _located(unit, _messages(exc.java_exception))
        ) from exc
    return compiler


def _located(unit: JavaUnit, messages: Sequence[str]) -> str:
    """The innermost message of the compiler, with its file and line."""
    places = [place for message in messages for place in _PLACE.finditer(message)]
    innermost = _PLACE.sub("", messages[-1])
    if not places:
        return innermost
    file, line, text = unit.origin(int(places[-1][1]))
    return f"{file}, line {line}: {innermost}\n  {text.strip()}"


def _messages(error: Any) -> list[str]:
    """The messages of a Java exception and of its causes."""
    messages = []
    while error is not None:
        messages.append(str(error.getMessage() or error.toString()))
        error = error.getCause()
    return messages


def joined(fields: Iterable[str]) -> str:
    """Encode several strings as one record, to be passed as one argument."""
    return "".join(f"{_escaped(field)}{_FIELD_END}" for field in fields)


def fields_of(record: str) -> list[str]:
    """Decode a returned string that is one record."""
    return [_unescaped(field) for field in record.split(_FIELD_END)[:-1]]


def records_of(answer: str) -> list[list[str]]:
    """Decode a returned string of several records, each to its fields."""
    return [fields_of(record) for record in answer.split(_RECORD_END)[:-1]]


def by_turns(fields: Sequence[str]) -> dict[str, str]:
    """The mapping of fields in which keys and values alternate."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def _escaped(field: str) -> str:
    """Escape the separators in a field, as Records.java does."""
    return field.replace("%", "%25").replace(_FIELD_END, "%1F").replace(_RECORD_END, "%1E")


def _unescaped(field: str) -> str:
    return field.replace("%1E", _RECORD_END).replace("%1F", _FIELD_END).replace("%25", "%")
