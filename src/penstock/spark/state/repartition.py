"""Changes the number of state partitions of a checkpoint that no query uses."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import SurgeryRefusedError, UnsupportedError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.lines import SparkLine
from penstock.spark.session.stream_session import STATE_FORMAT_VERSION

_RUNNER = "StateRepartition"


def require_repartitioning(line: SparkLine) -> None:
    """Raise UnsupportedError if a line of Spark cannot repartition state."""
    if not line.has(_RUNNER):
        raise UnsupportedError(
            "The installed Spark cannot change the number of state partitions; Spark 4.2 and newer "
            "can. Run the query and this command with one of them, or start the query with a new "
            "checkpoint, which reads its input from the beginning."
        )


def repartition_state(
    spark: SparkSession, checkpoint: str, partitions: int, state_format: int
) -> int:
    """Add a batch without input to a checkpoint, whose state has `partitions` partitions.

    `state_format` is the version of the checkpoint's state files. Returns the id of the batch. The
    checkpoint must not change meanwhile, and its newest batch must be committed. Raises
    SurgeryRefusedError if Spark fails; the checkpoint may then have a part of the new batch.
    """
    jvm = Jvm.of(spark)
    require_repartitioning(jvm.line)
    spark.conf.set(STATE_FORMAT_VERSION, str(state_format))
    # Creates the coordinator of state stores, which the tasks of Spark 4.2 look for.
    spark._jsparkSession.streams()
    try:
        runner = jvm.new(
            _RUNNER,
            sparkSession=spark._jsparkSession,
            checkpointLocation=checkpoint,
            numPartitions=partitions,
            enforceExactlyOnceSink=True,
        )
        return int(runner.run())
    except (PySparkException, Py4JError) as exc:
        raise SurgeryRefusedError(f"Spark cannot repartition this state. {_reason(exc)}") from exc


def _reason(error: Exception) -> str:
    """The message of Spark's exception, without its class and its stack trace."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage())
    return text.partition("\n\tat ")[0].strip()
