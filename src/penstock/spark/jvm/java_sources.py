"""The Java sources of Penstock, as templates that are filled in for a Spark line.

They refer to Spark's internal classes by the keys of the table of internal classes. Calls that
differ between lines have keywords: `${new Project(projectList = columns, child = plan)}` for a
constructor, `${LogicalRDD.fromDataset(rdd = rows)}` for a method of a companion object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from penstock.spark.jvm.lines import SparkLine, version_number

_COMMENT_OR_TEXT = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
_CALL = re.compile(r"\$\{(new )?(\w+)(?:\.(\w+))?\((.*?)\)\}", re.DOTALL)
_KEYWORD = re.compile(r"\s*(\w+) = (.*)", re.DOTALL)
_VARIANT = re.compile(r"(?P<name>\w+)-(?P<line>\d+\.\d+)\.java")


@dataclass(frozen=True)
class JavaFile:
    """A source file before the template is filled in."""

    name: str
    text: str


def java_files(line: SparkLine) -> list[JavaFile]:
    """The sources for a line: the common ones, and the variant of each other that applies."""
    folder = _folder()
    shared = [JavaFile(entry.name, entry.read_text("utf-8")) for entry in _sources(folder)]
    variants: dict[str, Any] = {}
    for entry, name, since in sorted(_variants(folder / "lines"), key=_age):
        if since <= line.number:
            variants[name] = entry
    return shared + [JavaFile(entry.name, entry.read_text("utf-8")) for entry in variants.values()]


def file_system_source() -> JavaFile:
    """The file system for state files, which is compiled apart, into a package of Hadoop."""
    entry = _folder() / "hadoop" / "PenstockFileSystem.java"
    return JavaFile(entry.name, entry.read_text("utf-8"))


def _folder() -> Any:
    return resources.files("penstock.spark") / "java"


def _sources(folder: Any) -> list[Any]:
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".java")]
    return sorted(found, key=lambda entry: str(entry.name))


def _variants(folder: Any) -> Iterator[tuple[Any, str, tuple[int, ...]]]:
    for entry in _sources(folder):
        match = _VARIANT.fullmatch(entry.name)
        assert match is not None, f"{entry.name} has no Spark line in its name"
        yield entry, match["name"], version_number(match["line"])


def _age(variant: tuple[Any, str, tuple[int, ...]]) -> tuple[str, tuple[int, ...]]:
    return variant[1:]


class JavaUnit:
    """Several files, joined to one compilation unit for a Spark line."""

    def __init__(self, files: Sequence[JavaFile], package: str, line: SparkLine) -> None:
        template = _Template(line)
        lines = [
            (file.name, number, text)
            for file in files
            for number, text in enumerate(template.fill(file.text).split("\n"), 1)
        ]
        imports = [line for line in lines if line[2].startswith("import ")]
        others = [line for line in lines if not line[2].startswith("import ")]
        self._lines = [("", 0, f"package {package};"), *_without_repetition(imports), *others]
        self.text = "\n".join(text for _, _, text in self._lines)

    def origin(self, line_number: int) -> tuple[str, int, str]:
        """The file, line number and text of a line of the unit, counted from 1."""
        return self._lines[line_number - 1]


def _without_repetition(imports: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Drop duplicate imports: a unit may import a class only once."""
    first: dict[str, tuple[str, int, str]] = {}
    for line in imports:
        first.setdefault(line[2], line)
    return list(first.values())


class _Template:
    """Fills in the class names and the argument lists of a Spark line."""

    def __init__(self, line: SparkLine) -> None:
        self._classes = line.classes
        names = "|".join(line.classes)
        self._names = re.compile(rf"(?P<kept>{_COMMENT_OR_TEXT})|\b(?P<name>{names})\b", re.DOTALL)

    def fill(self, text: str) -> str:
        """Fill in a text. The number of lines does not change."""
        return self._names.sub(self._full_name, _CALL.sub(self._call, text))

    def _full_name(self, match: re.Match[str]) -> str:
        if match["kept"] is not None:
            return match["kept"]
        return self._classes[match["name"]].name.replace("$", ".")

    def _call(self, match: re.Match[str]) -> str:
        """Replace a call by keyword with a Java call by position, on as many lines."""
        new, class_name, method, text = match.groups()
        keywords = {}
        for argument in _split(text):
            keyword = _KEYWORD.fullmatch(argument)
            if keyword is None:
                raise ValueError(f"not a keyword and a value: {argument!r}")
            keywords[keyword[1]] = keyword[2]
        arguments = self._classes[class_name].arguments(keywords, method or "new")
        missing_lines = text.count("\n") - sum(value.count("\n") for value in arguments)
        callee = f"new {class_name}" if new else f"{class_name}$.MODULE$.{method}"
        return f"{callee}({', '.join(arguments)}" + "\n" * missing_lines + ")"


def _split(text: str) -> list[str]:
    """Split a text at the commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]
