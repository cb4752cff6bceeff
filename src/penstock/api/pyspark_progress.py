"""Conversion of progress records to PySpark's classes."""

from __future__ import annotations

import copy

from pyspark.sql.streaming.listener import StreamingQueryProgress as PySparkProgress

from penstock.engine.progress import StreamingQueryProgress
from penstock.spark.jvm.pyspark_api import progress_record


def as_pyspark(progress: StreamingQueryProgress) -> PySparkProgress:
    """Convert a progress record to PySpark's class.

    A rate that is NaN or infinite, which JSON cannot represent, is left out of the JSON but is set
    in the object as a float.
    """
    fields = progress.to_dict()
    filled = copy.deepcopy(fields) | {"batchDuration": progress.batch_duration_ms}
    for of_source, source in zip(filled["sources"], progress.sources, strict=True):
        of_source.setdefault("inputRowsPerSecond", source.input_rows_per_second)
        of_source.setdefault("processedRowsPerSecond", source.processed_rows_per_second)
    filled.setdefault("inputRowsPerSecond", progress.input_rows_per_second)
    filled.setdefault("processedRowsPerSecond", progress.processed_rows_per_second)
    return progress_record(filled, fields)
