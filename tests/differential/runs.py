"""Runs a program on either engine and records the results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark.jvm.lines import version_number
from tests.differential.inputs import arrive
from tests.differential.program import Aspect, Input, Program
from tests.differential.sinks import Outlet, Rows, canonical
from tests.streams import progress_fields

_TIMESTAMP = re.compile(r'"batchTimestampMs":\d+')
_OBJECT_ID = re.compile(r"@[0-9a-f]{4,8}\b")
_STATE_ID = re.compile(r'"[0-9a-f]{8}-[0-9a-f-]{27}"')
_SCHEME = re.compile(rb"\bfile:(?=/)", re.IGNORECASE)
_FILE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_LINE = version_number(pyspark.__version__)
_STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_JOIN_SIDES = ("left", "right")
_MEASUREMENTS = {
    "id",
    "runId",
    "name",  # differs between the engines: names of active queries are unique
    "timestamp",
    "batchDuration",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "allUpdatesTimeMs",
    "allRemovalsTimeMs",
    "commitTimeMs",
    "memoryUsedBytes",
}
_MAPS_OF_MEASUREMENTS = {"durationMs", "customMetrics"}

HAS_STATE_READER = _LINE >= (4, 0)


class Engine(Enum):
    """The engine that runs a query."""

    SPARK = "Spark"
    PENSTOCK = "Penstock"

    @property
    def other(self) -> Engine:
        return Engine.PENSTOCK if self is Engine.SPARK else Engine.SPARK

    def writer(self, df: DataFrame, sink_name: str | None = None) -> Any:
        if self is Engine.PENSTOCK:
            writer = penstock.write_stream(df)
            return writer if sink_name is None else writer.name(sink_name)
        reference = df.writeStream
        if sink_name is not None:
            # PySpark's writer cannot name a sink; the writer in the JVM can.
            reference._jwrite = reference._jwrite.name(sink_name)
        return reference


Observation = Mapping[Aspect, Any]


@dataclass
class Run:
    """A query on one checkpoint. Its rounds can run on one engine or on both in turn."""

    program: Program
    session: SparkSession
    input: Path
    root: Path
    progress: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = f"{self.program.name}_{self.root.name}".replace("-", "_")
        self.outlet = Outlet(self.session, self.root / "output", name)

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def start(self, engine: Engine, **trigger: Any) -> Any:
        """Build the DataFrame and start the query, as a restarted program does."""
        df = self.program.build(Input(self.session, self.input))
        writer = engine.writer(df, self.program.sink_name).outputMode(self.program.output_mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = self.program.sink.attach(writer.trigger(**trigger), self.outlet)
        return self.program.sink.start(writer, self.outlet)

    def run_round(self, engine: Engine) -> None:
        """Process all available data."""
        query = self.start(engine, availableNow=True)
        query.awaitTermination()
        self.progress.extend(map(progress_fields, query.recentProgress))

    # The results of the run.

    def log(self, name: str) -> dict[int, str]:
        """The entries of a log of the checkpoint."""
        files = (self.checkpoint / name).glob("[0-9]*")
        return {int(file.name): file.read_text() for file in sorted(files, key=_number)}

    def forget_last_commit(self) -> None:
        """Remove the last commit: its batch is then planned and not committed."""
        last = max(self.log("commits"))
        (self.checkpoint / "commits" / str(last)).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)

    def observe(self, aspects: Iterable[Aspect] = tuple(Aspect)) -> Observation:
        """The aspects that the program compares, without times and ids."""
        wanted = set(aspects) - self.program.skip
        ways = {
            Aspect.ROWS: self.rows,
            Aspect.OFFSETS: self._offsets,
            Aspect.COMMITS: self._commits,
            Aspect.SOURCE_LOGS: self._source_logs,
            Aspect.PROGRESS: self._progress,
            Aspect.STATE: self.state,
            Aspect.SCHEMES: self._schemes,
        }
        return {aspect: look() for aspect, look in ways.items() if aspect in wanted}

    def rows(self) -> dict[int, Rows]:
        rows = dict(self.program.sink.rows(self.outlet))
        if not self.program.times:
            return rows
        entries = {batch: entry.splitlines()[1] for batch, entry in self.log("offsets").items()}
        return {
            batch: [self._relative(row, json.loads(entries[batch])) for row in found]
            for batch, found in rows.items()
        }

    def _relative(self, row: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
        at = datetime.fromtimestamp(entry["batchTimestampMs"] / 1000, timezone.utc)
        return {k: _distance(v, at) if k in self.program.times else v for k, v in row.items()}

    def _offsets(self) -> dict[int, str]:
        return {
            batch: _TIMESTAMP.sub('"batchTimestampMs":_', _in_order(entry))
            for batch, entry in self.log("offsets").items()
        }

    def _commits(self) -> dict[int, str]:
        return {batch: _STATE_ID.sub('"_"', text) for batch, text in self.log("commits").items()}

    def _source_logs(self) -> dict[str, str]:
        directory = self.checkpoint / "sources"
        files = sorted(f for f in directory.rglob("*") if f.is_file() and f.suffix != ".crc")
        return {str(file.relative_to(directory)): file.read_text() for file in files}

    def _schemes(self) -> set[bytes]:
        """The schemes of local paths in the checkpoint: without our settings only `file:` works."""
        files = (f for f in self.checkpoint.rglob("*") if f.is_file())
        return {scheme for file in files for scheme in _SCHEME.findall(file.read_bytes())}

    def _progress(self) -> list[list[str]]:
        return [self._comparable(progress) for progress in self.progress]

    def _comparable(self, progress: dict[str, Any]) -> list[str]:
        """A progress record as lines of JSON, with measurements replaced by their types."""
        text = json.dumps(progress).replace(str(self.root), "<root>")
        text = text.replace(self.outlet.name, "<output>")  # the description of a table has it
        progress = json.loads(_OBJECT_ID.sub("@_", text))
        return json.dumps(_timeless(progress), indent=1).splitlines()

    # State, read through Spark's state data source where it exists.

    def state(self) -> dict[str, Any]:
        """The rows of every state store after the last batch; else what is in the state files."""
        if not (self.checkpoint / "state").exists():
            return {}
        if not HAS_STATE_READER:
            return self.state_files()
        if _LINE < (4, 1) and int(self.session.conf.get(_STATE_FORMAT) or 1) >= 2:
            return {}  # Spark's reader finds state that is named by ids since 4.1
        operators = self._read("state-metadata").drop("_properties").collect()
        found = {"metadata": canonical(operators)}
        for operator in {row.operatorId: row for row in operators}.values():
            for options in self._stores(operator.operatorName):
                reading = {"operatorId": str(operator.operatorId), **options}
                rows = self._read("statestore", **reading).collect()
                found[", ".join(f"{k}={v}" for k, v in reading.items())] = canonical(rows)
        return found

    def state_files(self) -> dict[str, str]:
        """The files of state, with their contents where these are the same in every run.

        Without the `.sst` files of RocksDB, whose numbers depend on its background threads.
        """
        directory = self.checkpoint / "state"
        left_out = (".crc", ".sst")
        files = (f for f in directory.rglob("*") if f.is_file() and f.suffix not in left_out)
        return {
            _FILE_ID.sub("_", str(file.relative_to(directory))): (
                file.read_bytes().hex() if file.suffix == ".delta" else ""
            )
            for file in sorted(files)
        }

    def _stores(self, operator_name: str) -> list[dict[str, str]]:
        if operator_name == "symmetricHashJoin":
            return [{"joinSide": side} for side in _JOIN_SIDES]
        if operator_name.startswith("transformWithState"):
            return [{"stateVarName": name} for name in self.program.state_variables]
        return [{}]

    def _read(self, format: str, **options: str) -> DataFrame:
        reader = self.session.read.format(format).options(**options)
        return reader.load(str(self.checkpoint))


def prepare(program: Program, spark: SparkSession) -> SparkSession:
    """A new session with the program's settings."""
    session = spark.newSession()
    for key, value in program.conf.items():
        session.conf.set(key, value)
    return session


Arrival = Callable[[int, int], None]
"""Makes the input of round `number` of `rounds` available: `arrival(number, rounds)`."""


def files_of(program: Program, directory: Path) -> Arrival:
    """Writes the input files of a program."""
    return lambda number, rounds: arrive(directory, program.inputs, program.format, number, rounds)


def run_in_lock_step(
    program: Program, spark: SparkSession, root: Path, arrival: Arrival | None = None
) -> dict[Engine, Run]:
    """Run a program on both engines, round by round, on the same input; by default its files."""
    session = prepare(program, spark)
    arrival = arrival or files_of(program, root / "input")
    runs = {
        engine: Run(program, session, root / "input", root / engine.name.lower())
        for engine in Engine
    }
    for number in range(program.rounds):
        arrival(number, program.rounds)
        for engine, run in runs.items():
            run.run_round(engine)
    return runs


def _number(file: Path) -> int:
    return int(file.name)


def _in_order(entry: str) -> str:
    """An offset log entry; the lines of named sources (v2) are sorted, as Spark's order varies."""
    version, metadata, *offsets = entry.split("\n")
    return "\n".join([version, metadata, *(sorted(offsets) if version == "v2" else offsets)])


def _distance(value: Any, at: datetime) -> str:
    """The distance of a timestamp or date from the batch timestamp, equal in all runs."""
    if isinstance(value, datetime):
        # The session's time zone is UTC; PySpark returns naive local times.
        aware = value.astimezone(timezone.utc) if value.tzinfo is None else value
        return f"batch timestamp + {aware - at}"
    assert isinstance(value, date)
    return f"day of batch + {value - at.date()}"


def _timeless(value: Any) -> Any:
    """A JSON value in which measurements are replaced by their types."""
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _kind(figure) for name, figure in found.items()}
        if key in _MAPS_OF_MEASUREMENTS
        else _kind(found)
        if key in _MEASUREMENTS
        else _timeless(found)
        for key, found in value.items()
    }


def _kind(value: Any) -> str:
    """The type of a JSON value; for a float also its number of decimals.

    Rates are rounded since 4.1, so that all have the same number of decimals.
    """
    if isinstance(value, float) and _LINE >= (4, 1):
        return f"number with {len(repr(value).partition('.')[2])} decimals"
    return type(value).__name__
