"""The pytest plugin of Penstock, which provides fixtures for tests of streaming queries.

PySpark is imported, and Spark is started, only when a test uses one of the fixtures.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.testing.manual_clock import ManualClock
    from penstock.testing.memory_stream import MemoryStream
    from penstock.testing.script import StreamScript


@pytest.fixture(scope="session")
def penstock_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session for the whole test run, which logs to a file.

    If a session is already active, that session is used and not stopped.
    """
    from pyspark.sql import SparkSession

    from penstock.api.quiet_session import quiet_session

    running = SparkSession.getActiveSession()
    folder = tmp_path_factory.mktemp("penstock-spark")
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    log = folder / "spark.log"
    session = running or quiet_session("penstock tests", log, conf, short_lived=True)
    yield session
    if running is None:
        session.stop()


@pytest.fixture
def penstock_checkpoint(tmp_path: Path) -> str:
    """The path for the checkpoint of a test; it does not exist yet."""
    return str(tmp_path / "penstock-checkpoint")


@pytest.fixture
def penstock_clock() -> ManualClock:
    """A ManualClock, set to 0."""
    from penstock.testing.manual_clock import ManualClock

    return ManualClock()


@pytest.fixture
def penstock_memory_stream(penstock_spark: SparkSession) -> Callable[..., MemoryStream]:
    """Creates memory streams on the shared session: `penstock_memory_stream("word string")`."""
    from penstock.testing.memory_stream import MemoryStream

    def make(schema: Any, **arguments: Any) -> MemoryStream:
        return MemoryStream(schema, penstock_spark, **arguments)

    return make


@pytest.fixture
def penstock_script(
    penstock_clock: ManualClock, penstock_checkpoint: str
) -> Iterator[Callable[..., StreamScript]]:
    """Creates scripts with `penstock_clock`; stops them after the test.

    The arguments are those of StreamScript: `penstock_script(df, output_mode="update")`. The first
    script is on `penstock_checkpoint`, each further one on a checkpoint of its own, unless it is
    given a `checkpoint`.
    """
    from penstock.testing.script import StreamScript

    scripts: list[StreamScript] = []
    further = (f"{penstock_checkpoint}-{number}" for number in itertools.count(2))
    checkpoints = itertools.chain([penstock_checkpoint], further)

    def make(df: Any, **arguments: Any) -> StreamScript:
        defaults: dict[str, Any] = {"clock": penstock_clock}
        if "checkpoint" not in arguments:
            defaults["checkpoint"] = next(checkpoints)
        scripts.append(StreamScript(df, **{**defaults, **arguments}))
        return scripts[-1]

    yield make
    for script in scripts:
        script.stop()
