"""Which error conditions of Spark concern streaming, and why some are not in the table."""

from __future__ import annotations

import re

_STREAMING = re.compile(
    r"STREAM|STATE_STORE|STATEFUL|STATE_RE|CHECKPOINT|FOREACH|TRANSFORM_WITH_STATE|WATERMARK"
    r"|LOG_FILE|LOG_VERSION|BATCH_METADATA|MICRO_BATCH|^STDS_|PYTHON_EXCEPTION|FAILED_READ_FILE"
)


def is_about_streaming(name: str) -> bool:
    return _STREAMING.search(name) is not None


_TASK = "raised by Spark's operators, sources and state stores, which both engines use"
_STATE_TOOLS = "raised by the state data source and by repartitioning, not by a query"
_ANALYSIS = "raised by Spark's analyzer, before the query is started"
_REFUSED = "raised in a mode that Penstock refuses at the start"
_OTHER = "raised by other components of Spark"

ELSEWHERE: dict[str, str] = {
    # Passed on unchanged by the engine; the table has examples of each kind.
    r"CANNOT_LOAD_STATE_STORE\..*": _TASK,
    r"CANNOT_WRITE_STATE_STORE\..*": _TASK,
    r"STATE_STORE_.*": _TASK,
    r"ILLEGAL_STATE_STORE_VALUE\..*": _TASK,
    r"STATEFUL_PROCESSOR_.*": _TASK,
    r"STREAM_STREAM_JOIN_.*": _TASK,
    r"TRANSFORM_WITH_STATE_.*": _TASK,
    r"UNSUPPORTED_FEATURE\.STATE_STORE_.*": _TASK,
    r"CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED": _TASK,
    r"EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED": _TASK,
    r"FAILED_READ_FILE\..*": _TASK,
    r"FOREACH_USER_FUNCTION_ERROR": "raised by `foreach` in Scala or Java; in Python it is "
    "PYTHON_EXCEPTION",
    r"STREAMING_PYTHON_RUNNER_.*": _TASK,
    r"MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE\..*": _TASK,
    r"BATCH_METADATA_NOT_FOUND": _TASK,
    r"INVALID_LOG_VERSION\.EXACT_MATCH_VERSION": _TASK,
    r"CANNOT_LOAD_CHECKPOINT_FILE_MANAGER\..*": _TASK,
    r"DATA_SOURCE_(MICRO_BATCH|STREAMING)_.*": _TASK,
    # The wrapper of every other condition.
    r"STREAM_FAILED": "the condition of every error that a query raises",
    # Not possible on Penstock.
    r"STREAMING_ASYNC_OPERATION_FAILED": _REFUSED,
    r"STREAMING_CHECKPOINT_LOG_WRITE_FAILURE\..*": "raised by asynchronous progress "
    "tracking, which Penstock does not support",
    r"(INVALID_)?STREAMING_REAL_TIME_MODE.*": _REFUSED,
    r"STREAMING_SHUFFLE_.*": _REFUSED,
    r"STREAMING_QUERY_EVOLUTION_ERROR\.(ASYNC|CONTINUOUS)_.*": _REFUSED,
    # Raised before the query is started.
    r"STREAMING_QUERY_EVOLUTION_ERROR\..*": _ANALYSIS,
    r"STREAMING_OUTPUT_MODE\.INVALID": _ANALYSIS,
    r"UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK": _ANALYSIS,
    r"(CALL_ON|NOT|WRITE)_STREAM.*": _ANALYSIS,
    r"(CANNOT_.*|REQUIRES_.*)_WATERMARK.*": _ANALYSIS,
    r"INVALID_SUBQUERY_EXPRESSION\.STREAMING_QUERY": _ANALYSIS,
    r"(NEAREST_BY|NESTED_SEQUENTIAL|NON_TIME|STATEFUL_CHILDREN)_.*STREAMING.*": _ANALYSIS,
    # Not raised by queries.
    r"STATE_RE(PARTITION|WRITER)_.*": _STATE_TOOLS,
    r"STDS_.*": _STATE_TOOLS,
    r"(SPARK_)?CONNECT_.*": _OTHER,
    r"(INCOMPATIBLE_STREAMING_VIEW|INVALID_FLOW_QUERY_TYPE|INVALID_PARAMETER_VALUE).*": _OTHER,
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND": _OTHER,
}
"""Pattern of condition names -> the reason why no program of the suite raises them."""
