"""What a checkpoint must not be restarted with, as Spark has it."""

from __future__ import annotations

from penstock.checkpoint import OffsetSeq
from penstock.engine.runtime import QueryRuntime
from penstock.errors import Condition, SourceEvolutionError, UnfinishedRepartitionError

_PARTITIONS = "spark.sql.shuffle.partitions"


def refuse_unfinished_repartition(
    runtime: QueryRuntime, batch_id: int, latest: OffsetSeq, before: OffsetSeq
) -> None:
    """Raise UnfinishedRepartitionError if the latest batch is one that was to move the state.

    Such a batch differs from the one before in the number of partitions it records; nothing else
    changes that number. Run as an ordinary batch it would find half of the state.
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


def refuse_names_of_sources(runtime: QueryRuntime) -> None:
    """Raise SourceEvolutionError if sources go by their names and the entries have none."""
    if runtime.session.settings.source_evolution:
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
