"""The fixtures that every pytest run has where Penstock is installed.

Nothing is imported, and no Spark is started, before a test asks for one of them.
"""

from __future__ import annotations

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
    """A local Spark session for the whole run, which logs to a file instead of the terminal.

    A session that runs already is taken as it is, and left running.
    """
    from pyspark.sql import SparkSession

    from penstock.api.quiet import quiet_session

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
    """The path of a directory for a test's checkpoint. It is not made yet."""
    return str(tmp_path / "penstock-checkpoint")


@pytest.fixture
def penstock_clock() -> ManualClock:
    """A ManualClock at 0."""
    from penstock.testing.manual_clock import ManualClock

    return ManualClock()


@pytest.fixture
def penstock_memory_stream(penstock_spark: SparkSession) -> Callable[..., MemoryStream]:
    """Makes memory streams on the shared session: `penstock_memory_stream("word string")`."""
    from penstock.testing.memory_stream import MemoryStream

    def make(schema: Any, **arguments: Any) -> MemoryStream:
        return MemoryStream(schema, penstock_spark, **arguments)

    return make


@pytest.fixture
def penstock_script(
    penstock_clock: ManualClock, penstock_checkpoint: str
) -> Iterator[Callable[..., StreamScript]]:
    """Makes scripts on the test's clock and checkpoint, and stops them after the test."""
    from penstock.testing.script import StreamScript

    scripts: list[StreamScript] = []

    def make(df: Any, **arguments: Any) -> StreamScript:
        defaults = {"clock": penstock_clock, "checkpoint": penstock_checkpoint}
        scripts.append(StreamScript(df, **{**defaults, **arguments}))
        return scripts[-1]

    yield make
    for script in scripts:
        script.stop()
