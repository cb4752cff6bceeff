"""Queries that fail because of their data or of user code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tests.differential.failures.stage import Failure, Stage


def _missing_in_batch(df: DataFrame, batch_id: int) -> None:
    raise KeyError("customer_id")


def _assert_in_batch(df: DataFrame, batch_id: int) -> None:
    assert batch_id < 0


def _unknown_column_in_batch(df: DataFrame, batch_id: int) -> None:
    df.select("nope").collect()


def _collect(df: DataFrame, batch_id: int) -> None:
    df.collect()


def _in_batch(function: Callable[[DataFrame, int], None]) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        stage.put("a")
        stage.run(stage.lines(), function)

    return provoke


def _bad_json(sink: Any) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        stage.put('{"a":1}', '{"a":')
        reader = stage.session.readStream.schema("a int").option("mode", "FAILFAST")
        stage.run(reader.json(str(stage.home / "input")), sink)

    return provoke


def _no_parquet(stage: Stage) -> None:
    stage.put("no parquet")
    stage.run(stage.session.readStream.schema("a int").parquet(str(stage.home / "input")))


def _udf(sink: str) -> Callable[[Stage], None]:
    empty: dict[str, str] = {}

    def provoke(stage: Stage) -> None:
        stage.put("a")
        rows = stage.lines().select(
            F.udf(lambda value: empty["customer_id"])("value").alias("value")
        )
        if sink == "memory":
            name = f"udf_{stage.engine.name}"
            stage.query = stage.writer(rows).format("memory").queryName(name).start()
        elif sink == "table":
            stage.query = stage.writer(rows).toTable("udf_table")
        else:
            stage.run(rows, sink)
            return
        stage.query.awaitTermination()

    return provoke


def _expression(expression: str) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        stage.put("a")
        stage.run(stage.lines().selectExpr(f"{expression} AS value"))

    return provoke


def _foreach(stage: Stage) -> None:
    def process(row: Row) -> None:
        raise KeyError("customer_id")

    stage.put("a")
    stage.query = stage.writer(stage.lines()).foreach(process).start()
    stage.query.awaitTermination()


def _with_state(stage: Stage) -> None:
    def update(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        raise KeyError("customer_id")

    stage.put("a")
    keyed = stage.lines().groupBy("value")
    rows = keyed.applyInPandasWithState(update, "a int", "b int", "append", "NoTimeout")
    stage.run(rows)


def _python_source(method: str, sink: Any = "noop") -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        source = _failing_source(method)
        stage.session.dataSource.register(source)
        stage.run(stage.session.readStream.format(source.name()).load(), sink)

    return provoke


def _failing_source(method: str) -> Any:
    # Not in Spark 3.5.
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def _reach(self, reached: str) -> None:
            if reached == method:
                raise KeyError("customer_id")

        def initialOffset(self) -> dict[str, int]:
            self._reach("initialOffset")
            return {"at": 0}

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # without limits
            self._reach("latestOffset")
            return {"at": 1}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            self._reach("partitions")
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            self._reach("read")
            yield (1,)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"failing_in_{method}"

        def schema(self) -> str:
            return "a int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            if method == "streamReader":
                raise KeyError("customer_id")
            return Reader()

    return Source


FAILURES = (
    Failure("`foreachBatch`: `KeyError`", _in_batch(_missing_in_batch)),
    Failure("`foreachBatch`: `assert`", _in_batch(_assert_in_batch)),
    Failure("`foreachBatch`: an unknown column", _in_batch(_unknown_column_in_batch)),
    Failure("`foreachBatch`: a job fails", _bad_json(_collect)),
    Failure("`foreach`: `KeyError`", _foreach),
    Failure("a UDF, into noop", _udf("noop")),
    Failure("a UDF, into files", _udf("parquet")),
    Failure("a UDF, into memory", _udf("memory")),
    Failure("a UDF, into a table", _udf("table")),
    Failure("`applyInPandasWithState`", _with_state),
    *(
        Failure(f"a Python source: `{method}`", _python_source(method), since="4.0")
        for method in ("streamReader", "initialOffset", "latestOffset", "partitions", "read")
    ),
    Failure(
        "a Python source: `partitions`, into `foreachBatch`",
        _python_source("partitions", _collect),
        since="4.0",
    ),
    Failure("bad JSON, FAILFAST, into noop", _bad_json("noop")),
    Failure("bad JSON, FAILFAST, into files", _bad_json("parquet")),
    Failure("a file that is not Parquet", _no_parquet),
    Failure("a cast that fails", _expression("CAST(value AS INT)")),
    Failure("a division by zero", _expression("1 / (length(value) - 1)")),
    Failure("`raise_error`", _expression("raise_error('no')")),
    Failure(
        "a Java function that throws", _expression("reflect('java.util.UUID', 'fromString', value)")
    ),
)
