"""The result of a bisection, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.tools.offset_text import in_words
from penstock.engine.batch_parts import BatchPart, FilesPart, OffsetsPart, SourcePart

_FILES_SHOWN = 3


@dataclass(frozen=True)
class SourceRange:
    """The data that a part of a batch reads from one source.

    The range after the offset `start` up to and including `end`, as JSON texts; for a file source
    the paths in `files` instead. `size` is the number of `unit`s, None if it is unknown.
    """

    source: str
    start: str | None
    end: str | None
    files: tuple[str, ...]
    size: int | None
    unit: str

    @classmethod
    def of(cls, part: SourcePart) -> SourceRange:
        start = end = None
        files: tuple[str, ...] = ()
        if isinstance(part, OffsetsPart):
            start = part.start.json if part.start else None
            end = part.end.json if part.end else None
        elif isinstance(part, FilesPart):
            files = tuple(file.path for file in part.files)
        return cls(str(part.source), start, end, files, part.size, part.unit)

    @property
    def amount(self) -> str:
        """The size with its unit, `a range` if the size is unknown."""
        if self.size is None:
            return "a range"
        return f"{self.size} {self.unit}{'' if self.size == 1 else 's'}"

    def __str__(self) -> str:
        if not self.files:
            start = "the beginning" if self.start is None else in_words(self.start)
            return f"{self.amount}, {start} to {in_words(self.end)}"
        names = [path.rsplit("/", 1)[-1] for path in self.files]
        if len(names) > _FILES_SHOWN:
            names = [names[0], "...", names[-1]]
        return f"{self.amount}, {', '.join(names)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "start": self.start,
            "end": self.end,
            "files": list(self.files),
            "size": self.size,
            "unit": self.unit,
        }


@dataclass(frozen=True)
class BisectTrial:
    """A part of the batch that was run, and its error; None if it did not fail."""

    number: int
    ranges: tuple[SourceRange, ...]
    error: str | None

    def __str__(self) -> str:
        if len(self.ranges) == 1:
            tried = str(self.ranges[0])
        else:
            tried = "; ".join(f"{one.source}: {one}" for one in self.ranges) or "no new data"
        outcome = "passes" if self.error is None else f"fails: {self.error}"
        return f"{self.number}. {tried} - {outcome}"

    def to_dict(self) -> dict[str, Any]:
        ranges = [one.to_dict() for one in self.ranges]
        return {"number": self.number, "ranges": ranges, "error": self.error}


@dataclass(frozen=True)
class BisectReport:
    """The trials, and in `smallest` the smallest part that fails.

    `smallest` is empty and `error` None if the whole batch did not fail. `is_together` is true if
    the two halves of the smallest part were run one after the other and neither failed.
    `is_planned` is true if the batch is not committed, `has_state` if the query is stateful.
    `missing` are files of a batch that did not fail which do not exist any more.
    """

    checkpoint: str
    batch_id: int
    trials: tuple[BisectTrial, ...]
    smallest: tuple[SourceRange, ...] = ()
    error: str | None = None
    error_text: str | None = None
    is_together: bool = False
    is_planned: bool = True
    has_state: bool = False
    missing: tuple[str, ...] = ()

    @property
    def is_found(self) -> bool:
        return self.error is not None

    @property
    def hints(self) -> list[str]:
        """Sentences that recommend what to do next."""
        if not self.is_found and self.missing:
            return ["It was run without the files that are gone. Put them back, and repeat."]
        if not self.is_found:
            return [
                "If the failure is in the sink, or in a foreachBatch or foreach function, repeat "
                "with --with-sink. If the cause has been fixed, start the query again.",
            ]
        place = f'penstock.replay(df, "{self.checkpoint}", {self.batch_id})'
        hints = [f"The batch as ordinary DataFrames: {place}.input"]
        if not self.is_planned:
            return hints
        if any(one.files for one in self.smallest):
            way = "without the files: move them away, then penstock checkpoint replan"
        elif self.has_state:
            way = "after the range: penstock checkpoint replan, then set-offset, on"
        else:
            way = "without the whole batch: penstock checkpoint skip"
        hints.append(f"To continue {way} {self.checkpoint}")
        return hints

    def to_dict(self) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint,
            "batch": self.batch_id,
            "found": self.is_found,
            "smallest": [one.to_dict() for one in self.smallest],
            "together": self.is_together,
            "missing": list(self.missing),
            "error": self.error,
            "errorText": self.error_text,
            "trials": [trial.to_dict() for trial in self.trials],
            "hints": self.hints,
        }

    def __str__(self) -> str:
        return "\n".join([*self._verdict(), *(f"  {hint}" for hint in self.hints)])

    def _verdict(self) -> list[str]:
        if not self.is_found:
            lines = [f"Batch {self.batch_id} does not fail when it is run again."]
            return [*lines, *(f"  {path} does not exist any more." for path in self.missing)]
        lines = [f"The smallest part of batch {self.batch_id} that fails:"]
        for one in self.smallest:
            lines += [f"  {one.source}", f"    {one.amount}"]
            lines += [f"    {path}" for path in one.files]
            if not one.files:
                lines += [f"    after  {one.start or 'the beginning'}", f"    up to  {one.end}"]
        if self.is_together:
            lines.append("  Only the whole part fails: its two halves, run in order, do not.")
        return [*lines, f"  {self.error}"]


def ranges_of(part: BatchPart) -> tuple[SourceRange, ...]:
    """The range of each source that has data in a part."""
    return tuple(SourceRange.of(one) for one in part.with_data)


def brief(error: BaseException) -> str:
    """An error in one line: the last line of a Python traceback, else the first line."""
    text = str(error).partition("JVM stacktrace:")[0].strip()
    lines = [line for line in text.splitlines() if line.strip()]
    name = type(error).__name__
    traceback = _after_traceback(lines)
    if traceback:
        return traceback[-1].strip()
    return f"{name}: {lines[0].strip()}" if lines else name


def _after_traceback(lines: Sequence[str]) -> list[str]:
    """The lines after the frames of the last traceback: the error itself."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent")]
    return [line for line in lines[starts[-1] + 1 :] if line[0] != " "] if starts else []
