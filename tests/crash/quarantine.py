"""A program with a quarantine and state that is killed: `python quarantine.py WORK`.

It counts numbers by parity in a file sink of its own, one JSON file for each batch. Files whose
name has `bad` fail. The exit code is 3 if the query fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock import StreamingQueryException, write_stream
from penstock.testing import quiet_session

FAILED = 3


def run(spark: SparkSession, work: Path) -> int:
    """Process the files, in this process; returns the exit code of the program."""
    reader = spark.readStream.schema("n long").option("maxFilesPerTrigger", 4)
    checked = "if(n < 0, cast(raise_error('negative: ' || n) as long), n % 2) as odd"
    counts = reader.json(str(work / "in")).selectExpr(checked).groupBy("odd").count()

    def replace(df: DataFrame, batch_id: int) -> None:
        table = work / "table"
        table.mkdir(exist_ok=True)
        found = {row.odd: row["count"] for row in df.collect()}
        (table / str(batch_id)).write_text(json.dumps(found))

    writer = write_stream(counts).outputMode("complete").foreachBatch(replace)
    writer.quarantine(str(work / "aside"), after=1).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(work / "checkpoint")).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return FAILED
    return 0


def main(work: Path) -> int:
    """Process the files in a JVM of its own."""
    spark = quiet_session("kill quarantine", work / "spark.log", short_lived=True)
    try:
        return run(spark, work)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
