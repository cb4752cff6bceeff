"""The part of `make upgrades` that runs on one line of Spark, in that line's environment.

    python -m tests.upgrades.on_line begin ROOT
    python -m tests.upgrades.on_line go-on ROOT LINE...

`begin` runs the first round of every program on both engines and keeps the checkpoints. `go-on`
continues copies of the checkpoints of each LINE on both engines, and writes a report of how that
went. A query runs in the same directories on every line: paths are part of a checkpoint.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.api.quiet_session import quiet_session
from penstock.spark.jvm.lines import version_number
from tests.differential.compare import differences
from tests.differential.failures.observe import without_varying_parts
from tests.differential.inputs import arrive
from tests.differential.program import Aspect, Program
from tests.differential.programs import PROGRAMS
from tests.differential.runs import Engine, Observation, Run, prepare
from tests.installed_spark import installed_line

ROUNDS = 2
_NAMES = {
    "sink-parquet",
    "aggregation-rocksdb",
    "tumbling-append",
    "tumbling-changelog",
    "tumbling-state-ids",
    "session-append",
    "dedup-within-watermark",
    "join-left",
    "pandas-with-state-event-time",
    "transform-with-state-value",
    "named-sources-by-name",
}
CHOSEN = tuple(program for program in PROGRAMS if program.name in _NAMES)
"""One program for each durable format: logs of sources and sinks, state of each operator."""


_LOGS_AND_ROWS = (Aspect.ROWS, Aspect.OFFSETS, Aspect.COMMITS, Aspect.SOURCE_LOGS)


class Route(NamedTuple):
    """Which engine began a query, which one goes on, and if the last batch was committed."""

    first: Engine
    second: Engine
    committed: bool

    def __str__(self) -> str:
        how = "" if self.committed else ", the last batch again"
        return f"{self.first.value} to {self.second.value}{how}"


ROUTES = tuple(Route(a, b, c) for a in Engine for b in Engine for c in (True, False))
"""Every way to go on. The first two are Spark to Spark."""


@dataclass(frozen=True)
class Continuation:
    """A program that goes on: the text of its error if it was refused, and what is not as expected.

    Penstock has to do what Spark does. If a query goes on on a later line, it has to have the rows
    of one that has always run there.
    """

    program: str
    before: str
    after: str
    route: str
    refused: str
    wrong: str


Found = Observation | str
"""What a query left; the text of its error if it was refused."""


class Query:
    """One program below ROOT, in the directories that it has on every line."""

    def __init__(self, program: Program, spark: SparkSession, root: Path) -> None:
        self.program = program
        self._spark = spark
        self._input = root / "input" / program.name
        self._home = root / "now" / program.name
        self._kept = root / "kept"

    def begin(self, line: str, engine: Engine) -> None:
        """Run the first round and keep what it leaves."""
        self._run().run_round(engine)
        kept = self._place(line, engine)
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._home.rename(kept)

    def go_on(self, line: str, route: Route) -> Found:
        """Run the second round on what a line left."""
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._place(line, route.first), self._home)
        run = self._run()
        if not route.committed:
            run.forget_last_commit()
        try:
            run.run_round(route.second)
        except PySparkException as error:
            return _reason(error)
        return _observe(run, line)

    def _run(self) -> Run:
        self._home.mkdir(parents=True, exist_ok=True)
        return Run(self.program, prepare(self.program, self._spark), self._input, self._home)

    def _place(self, line: str, engine: Engine) -> Path:
        return self._kept / line / engine.name / self.program.name


def _observe(run: Run, line: str) -> Observation:
    """What a run left. `line` began it: Spark's reader finds no state from before 4.0."""
    seen = dict(run.observe(_LOGS_AND_ROWS))
    has_metadata = version_number(line) >= (4, 0)
    seen[Aspect.STATE] = run.state() if has_metadata else run.state_files()
    return seen


def _reason(error: PySparkException) -> str:
    """The first line of an error; of a failed query, that of its cause."""
    text = (error.getMessageParameters() or {}).get("message") or str(error)
    return without_varying_parts(text).removeprefix("assertion failed: ").split("\n")[0]


def begin(spark: SparkSession, root: Path, line: str) -> None:
    for program in _of_line(line):
        for engine in Engine:
            Query(program, spark, root).begin(line, engine)


def go_on(
    spark: SparkSession, root: Path, after: str, lines: Sequence[str]
) -> Iterator[Continuation]:
    """Continue the programs of each line on this one: those that both can run.

    A query with state that stays on its line is left out: `tests/differential/test_round_trips.py`
    takes it through the same.
    """
    for program in _of_line(after):
        query = Query(program, spark, root)
        always = {route.committed: query.go_on(after, route) for route in ROUTES[:2]}
        for before in lines:
            stays = before == after and program.stateful
            if program in _of_line(before) and not stays:
                yield from _continued(query, before, after, always)


def _continued(
    query: Query, before: str, after: str, always: Mapping[bool, Found]
) -> Iterator[Continuation]:
    """Continue a program of one line on another by every route.

    `always` is what it leaves if Spark begins it and goes on on the second line.
    """
    is_later = version_number(after) >= version_number(before)
    expected: dict[bool, Found] = {}
    for route in ROUTES:
        found = query.go_on(before, route)
        expected.setdefault(route.committed, found)  # Spark to Spark comes first
        wrong = _wrong(expected[route.committed], found)
        if is_later and not wrong:
            wrong = _lost(always[route.committed], found)
        refused = found if isinstance(found, str) else ""
        yield Continuation(query.program.name, before, after, str(route), refused, wrong)


def _lost(always: Found, found: Found) -> str:
    """What is wrong with the rows of a query that came from an earlier line.

    Nothing if it was refused: then Spark refuses it too.
    """
    if isinstance(found, str):
        return ""
    if isinstance(always, str):
        return f"goes on, but not if it has always run on this line: {always}"
    rows = ({Aspect.ROWS: seen[Aspect.ROWS]} for seen in (always, found))
    return differences("always on this line", next(rows), "this", next(rows))


def _wrong(expected: Found, found: Found) -> str:
    """How a continuation differs from that of Spark's engine."""
    if isinstance(found, str):
        if not isinstance(expected, str):
            return "refused, but Spark goes on"
        return "" if found.startswith(expected) else f"Spark's error is: {expected}"
    if isinstance(expected, str):
        return f"goes on, but Spark refuses it: {expected}"
    return differences("Spark to Spark", expected, "this", found)


def _of_line(line: str) -> Sequence[Program]:
    return [p for p in CHOSEN if version_number(p.since) <= version_number(line)]


def main(step: str, root: Path, lines: Sequence[str]) -> None:
    line = installed_line().name
    conf = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
    spark = quiet_session("upgrades", root / f"{step}-{line}.log", conf, short_lived=True)
    try:
        if step == "begin":
            begin(spark, root, line)
            return
        found = list(go_on(spark, root, line, lines))
        (root / f"{line}.json").write_text(json.dumps([asdict(done) for done in found]))
    finally:
        spark.stop()


def prepare_inputs(root: Path, number: int) -> None:
    """Write the files of one round of every program."""
    for program in CHOSEN:
        files = root / "input" / program.name
        arrive(files, program.inputs, program.format, number, ROUNDS)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
