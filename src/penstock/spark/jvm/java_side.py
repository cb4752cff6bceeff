"""The steps that run inside the JVM: Java classes, compiled there by the compiler that Spark ships.

Their sources, in `java/`, name Spark's internal classes as the table of internals does, and
construct them by keyword: `${new Project(projectList = columns, child = plan)}`. Both are filled in
for the Spark at hand, so that a class or a parameter that has moved is one change in one table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from penstock.errors import UnsupportedError
from penstock.spark.jvm.internals import INTERNAL_CLASSES, arranged

if TYPE_CHECKING:
    from penstock.spark.jvm.gateway import Jvm

_PACKAGE = "penstock"
_FIELD_END = "\x1f"
_RECORD_END = "\x1e"

_COMMENT_OR_TEXT = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
_CLASS_NAMES = "|".join(INTERNAL_CLASSES)
_NEW = re.compile(r"\$\{new (\w+)\((.*?)\)\}", re.DOTALL)
_NAMES = re.compile(rf"(?P<kept>{_COMMENT_OR_TEXT})|\b(?P<name>{_CLASS_NAMES})\b", re.DOTALL)
_KEYWORD = re.compile(r"\s*(\w+) = (.*)", re.DOTALL)
_PLACE = re.compile(r"Line (\d+), Column (\d+): ")


@dataclass(frozen=True)
class JavaFile:
    """A source file, as it is written."""

    name: str
    text: str


def java_files() -> list[JavaFile]:
    """The sources that come with Penstock."""
    folder = resources.files("penstock.spark") / "java"
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".java")]
    return [JavaFile(entry.name, entry.read_text("utf-8")) for entry in sorted(found, key=_name)]


def _name(entry: Any) -> str:
    return str(entry.name)


class JavaSide:
    """The compiled classes: steps of a start, figures of finished batches, a look at members."""

    def __init__(self, jvm: Jvm) -> None:
        loader = compiled(jvm, java_files())
        self.start = new_instance(jvm, loader, "Start")
        self.figures = self.start.figures()
        self.members = new_instance(jvm, loader, "Members")


def members_alone(jvm: Jvm) -> Any:
    """The class that looks for members, compiled without those that need them."""
    return jvm.once("members", lambda: _compile_members(jvm))


def _compile_members(jvm: Jvm) -> Any:
    files = [file for file in java_files() if file.name in ("Members.java", "Records.java")]
    package = f"{_PACKAGE}.alone"
    return new_instance(jvm, compiled(jvm, files, package), "Members", package)


def new_instance(jvm: Jvm, loader: Any, class_name: str, package: str = _PACKAGE) -> Any:
    """An object of a compiled class whose constructor takes nothing."""
    found = loader.loadClass(f"{package}.{class_name}")
    no_classes = jvm.array(jvm.cls("java.lang.Class"), ())
    return found.getConstructor(no_classes).newInstance(jvm.no_arguments)


def compiled(jvm: Jvm, files: Sequence[JavaFile], package: str = _PACKAGE) -> Any:
    """The loader of the classes in some files, compiled as one unit.

    A class that is compiled twice has to be in two packages: py4j remembers methods by the name of
    the class, and would call those of the first with an object of the second.

    Raises UnsupportedError that names the file, the line and what the compiler misses there: a
    member of Spark's that is not where it was.
    """
    unit = _Unit(files, package)
    compiler = jvm.cls("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(
        jvm.cls("java.lang.Thread").currentThread().getContextClassLoader()
    )
    try:
        compiler.cook(unit.text)
    except Py4JJavaError as exc:
        raise UnsupportedError(
            "Penstock's Java classes do not compile against this Spark: "
            + unit.located(_messages(exc.java_exception))
        ) from exc
    return compiler.getClassLoader()


class _Unit:
    """Several files as one, each line of which knows where it comes from."""

    def __init__(self, files: Sequence[JavaFile], package: str) -> None:
        lines = [(file.name, n, line) for file in files for n, line in enumerate(_lines(file), 1)]
        imports = [line for line in lines if line[2].startswith("import ")]
        others = [line for line in lines if not line[2].startswith("import ")]
        self._lines = [("", 0, f"package {package};"), *_without_repetition(imports), *others]
        self.text = "\n".join(text for _, _, text in self._lines)

    def located(self, messages: Sequence[str]) -> str:
        """The innermost message of the compiler, with the line of the file that is meant."""
        places = [place for message in messages for place in _PLACE.finditer(message)]
        file, line, text = self._lines[int(places[-1][1]) - 1] if places else ("", 0, "")
        innermost = _PLACE.sub("", messages[-1])
        return f"{file}, line {line}: {innermost}\n  {text.strip()}" if places else innermost


def _messages(error: Any) -> list[str]:
    """The messages of a Java exception and of what caused it."""
    messages = []
    while error is not None:
        messages.append(str(error.getMessage() or error.toString()))
        error = error.getCause()
    return messages


def _without_repetition(imports: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """The first of each: a unit may import a class once only."""
    first: dict[str, tuple[str, int, str]] = {}
    for line in imports:
        first.setdefault(line[2], line)
    return list(first.values())


def _lines(file: JavaFile) -> list[str]:
    """The lines of a file for the Spark at hand; as many as it has."""
    return _NAMES.sub(_full_name, _NEW.sub(_construction, file.text)).split("\n")


def _full_name(match: re.Match[str]) -> str:
    if match["kept"] is not None:
        return match["kept"]
    return INTERNAL_CLASSES[match["name"]].name.replace("$", ".")


def _construction(match: re.Match[str]) -> str:
    """A constructor by keyword as Java has it: the arguments in order, in as many lines."""
    class_name, text = match[1], match[2]
    keywords = {}
    for argument in _split(text):
        keyword = _KEYWORD.fullmatch(argument)
        if keyword is None:
            raise ValueError(f"not a keyword and a value: {argument!r}")
        keywords[keyword[1]] = keyword[2]
    arguments = arranged(class_name, keywords)
    missing_lines = text.count("\n") - sum(value.count("\n") for value in arguments)
    return f"new {class_name}({', '.join(arguments)}" + "\n" * missing_lines + ")"


def _split(text: str) -> list[str]:
    """The parts of a text between the commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]


def joined(fields: Iterable[str]) -> str:
    """Several texts as one argument, a record."""
    return "".join(f"{_escaped(field)}{_FIELD_END}" for field in fields)


def fields_of(record: str) -> list[str]:
    """The fields of an answer that is one record."""
    return [_unescaped(field) for field in record.split(_FIELD_END)[:-1]]


def records_of(answer: str) -> list[list[str]]:
    """The records of an answer, each as its fields."""
    return [fields_of(record) for record in answer.split(_RECORD_END)[:-1]]


def by_turns(fields: Sequence[str]) -> dict[str, str]:
    """The mapping whose keys and values are fields by turns."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def _escaped(field: str) -> str:
    """A field without the characters that end one. Records.java has the same."""
    return field.replace("%", "%25").replace(_FIELD_END, "%1F").replace(_RECORD_END, "%1E")


def _unescaped(field: str) -> str:
    return field.replace("%1E", _RECORD_END).replace("%1F", _FIELD_END).replace("%25", "%")
