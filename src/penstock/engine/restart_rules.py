"""Checks that refuse a restart which would lose or corrupt data."""

from __future__ import annotations

from penstock.checkpoint import OffsetSeq
from penstock.engine.runtime import QueryRuntime
from penstock.errors import (
    Condition,
    SinkAheadError,
    SourceEvolutionError,
    UnfinishedRepartitionError,
)

_PARTITIONS = "spark.sql.shuffle.partitions"


def refuse_unfinished_repartition(
    runtime: QueryRuntime, batch_id: int, latest: OffsetSeq, before: OffsetSeq
) -> None:
    """Raise UnfinishedRepartitionError if the latest batch is an uncommitted state repartitioning.

    Such a batch records another number of partitions than the previous one; no other batch does.
    If it ran as an ordinary batch it would find only part of the state.
    """
    latest_commit = runtime.checkpoint.commit_log.get_latest()
    if latest_commit is None or latest_commit[0] >= batch_id:
        return
    recorded = [entry.metadata.conf for entry in (latest, before) if entry.metadata]
    partitions = {conf[_PARTITIONS] for conf in recorded if _PARTITIONS in conf}
    if len(partitions) < 2 or not runtime.session.settings.check_unfinished_repartition:
        return
    raise UnfinishedRepartitionError(
        f"The latest batch {batch_id} is for an unfinished state repartitioning i.e. last "
        f"committed batch is: {latest_commit[0]}).\n"
        "Please retry the repartitioning operation and let it finish successfully before starting "
        "the streaming query.",
        Condition(
            "STREAMING_UNFINISHED_REPARTITION_DETECTED",
            "55019",
            {"batchId": str(batch_id), "lastCommittedBatchId": str(latest_commit[0])},
        ),
    )


def refuse_batches_only_the_sink_knows(runtime: QueryRuntime, latest_batch_id: int) -> None:
    """Raise SinkAheadError if the sink's own log has batches after the latest planned batch.

    The sink would skip the next batches with these ids as already written, whatever data they have.
    The latest planned batch itself may be in the sink's log: it has the same data when it runs
    again. `latest_batch_id` is -1 if the checkpoint has no planned batch.
    """
    known = runtime.plan.latest_batch_of_sink()
    if known is None or known <= latest_batch_id:
        return
    first, sink, root = latest_batch_id + 1, runtime.plan.sink_description, runtime.checkpoint.root
    batches = f"batch {known}" if first == known else f"batches {first} to {known}"
    planned = f"none after {latest_batch_id}" if latest_batch_id >= 0 else "none"
    cut = (
        f"cut its log back (`penstock checkpoint rewind CHECKPOINT --to {latest_batch_id} --sink "
        "OUTPUT`: the rows of these batches are then removed from the output, and the batches "
        "are planned and written anew), or "
        if latest_batch_id >= 0
        else ""
    )
    # Spark reads the log of a sink from batch 0 on: a checkpoint cannot change its output later.
    anew = "a new output" if latest_batch_id < 0 else "a new checkpoint and a new output"
    raise SinkAheadError(
        f"The sink {sink} has {batches} in its own log, but the checkpoint {root} has planned "
        f"{planned}. The sink would skip the next batches with these ids, and their rows would be "
        "lost. Nothing was run. The checkpoint is an older copy, was rewound or recreated, or is "
        "not the one that this output was written with. Restore that checkpoint, or "
        f"{cut}start over with {anew}. To let the sink skip these batches, set the option "
        "skipKnownBatches to true."
    )


def refuse_names_of_sources(runtime: QueryRuntime) -> None:
    """Raise SourceEvolutionError if the plan needs names. Call it for entries without names."""
    if runtime.plan.refuses_log_by_position:
        raise SourceEvolutionError(
            "Streaming query evolution error: Cannot enable streaming source evolution on a "
            "checkpoint that was created without it. The existing checkpoint uses offset log "
            "format version 1, which does not support the named source tracking required by "
            "streaming source evolution. To use source evolution, start the query with a fresh "
            "checkpoint.",
            Condition(
                "STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT",
                "42KDE",
                {"existingVersion": "1"},
            ),
        )
