"""A job with a JDBC sink that is killed.

    python -m tests.sinks.kill_job WORK JARS URL TABLE [STEP]

It copies the files in WORK/in to the table, one in a batch. With a STEP the process kills itself
there in batch 1. The JVM notices that later, and may be in the middle of a transaction.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import penstock
from penstock.sinks.jdbc_sink import JdbcSink, Step
from penstock.testing import quiet_session


def kill_at(step: Step) -> None:
    """Make the process kill itself when it reaches a step for the second time."""
    passages = 0

    def reach(sink: JdbcSink, reached: Step) -> None:
        nonlocal passages
        passages += reached is step
        if passages == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    JdbcSink._at = reach  # type: ignore[method-assign, assignment]


def main(work: Path, jars: str, url: str, table: str, step: str | None = None) -> None:
    if step is not None:
        kill_at(Step(step))
    settings = {"spark.jars": jars} if jars else {}
    spark = quiet_session("killed sink", work / "spark.log", settings, short_lived=True)
    reader = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    writer = penstock.write_stream(reader.json(str(work / "in")))
    writer.sink(penstock.sinks.jdbc(url, table)).trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "checkpoint")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
