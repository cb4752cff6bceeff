"""Every planted bug, with the smallest schedule that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation import planted_bugs as bugs
from tests.simulation import planted_quarantine_bugs as quarantine_bugs
from tests.simulation import planted_sink_bugs as sink_bugs
from tests.simulation import planted_store_bugs as store_bugs


@dataclass(frozen=True)
class PlantedBug:
    """A bug, the smallest schedule that shows it, and a part of the checker's message.

    The schedules were found among the single faults and reduced by `shrink`.
    """

    plant: Callable[[bugs.Patch], None]
    shown_by: str
    message: str


_POISON = "sources=v2-now:3 after=1 poison=0.1 plan=stateless retain=100 flags=nodata arrivals=3,1"

PLANTED_BUGS = {
    "commit before sink": PlantedBug(
        bugs.commit_before_sink,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata arrivals=0 runs=",
        "before the sink has batch",
    ),
    "WAL after run": PlantedBug(
        bugs.wal_after_run,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata arrivals=0 runs=",
        "without an entry in the offset log",
    ),
    "offsets requested again on a re-run": PlantedBug(
        bugs.offsets_requested_again_on_re_run,
        "sources=v1-limit:2 plan=stateless retain=100 flags=nodata "
        "arrivals=2,1 runs=processing!eio-after@create_offsets#1;once",
        "not what the offset log says",
    ),
    "overwrite instead of write-if-absent": PlantedBug(
        bugs.overwrite_instead_of_write_if_absent,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!rival@create_metadata#1",
        "was overwritten (rule 3)",
    ),
    "a checkpoint that is gone is made anew": PlantedBug(
        bugs.checkpoint_not_missed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0,1 runs=processing!gone@before_commit_log#1",
        "written although the checkpoint is gone",
    ),
    "an empty directory is taken for the checkpoint": PlantedBug(
        bugs.checkpoint_not_missed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0,1 runs=processing!emptied@sink_midway#1",
        "written although the checkpoint is emptied",
    ),
    "another query's checkpoint is written to": PlantedBug(
        bugs.only_directories_missed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!foreign@after_sources#1",
        "written although the checkpoint is foreign",
    ),
    "an older copy is written to": PlantedBug(
        bugs.only_the_id_missed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!older@before_commit_log#1",
        "written although the checkpoint is older",
    ),
    "the log of the sink is not checked": PlantedBug(
        bugs.log_of_sink_not_checked,
        "sources=v2-limit:1 plan=stateless retain=100 flags=nodata "
        "arrivals=1,1 runs=processing;processing!older@before_metadata#1",
        "written although the checkpoint is older",
    ),
    "the logs of another query are taken": PlantedBug(
        bugs.logs_of_another_query_taken,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=1 runs=processing!kill@sink_midway#1;processing!foreign@after_sources#1",
        "not the same (rule 1)",
    ),
    "existing commit ignored": PlantedBug(
        bugs.existing_commit_ignored,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!rival@create_commits#1",
        "went on (rule 3)",
    ),
    "watermark not restored": PlantedBug(
        bugs.watermark_not_restored,
        "sources=v1-limit:1 plan=min retain=100 flags=nodata "
        "arrivals=1 runs=processing!eio-after@create_offsets#2",
        "records the watermark",
    ),
    "watermark of the commit log not taken": PlantedBug(
        bugs.watermark_of_commit_log_not_taken,
        "sources=v1-limit:2,v2-now:1 plan=min retain=100 flags=nodata "
        "arrivals=0/0,1/1,0/1 runs=available",
        "the batch before has recorded",
    ),
    "timestamp not repeated": PlantedBug(
        bugs.timestamp_not_repeated,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!eio-after@create_offsets#1",
        "rule 1",
    ),
    "settings not frozen": PlantedBug(
        bugs.settings_not_frozen,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata arrivals=0,1 runs=available",
        "rule 5",
    ),
    "offsets purged too eagerly": PlantedBug(
        bugs.offsets_purged_too_eagerly,
        "sources=v2-now:1 plan=min retain=100 flags=nodata arrivals=0,1 runs=",
        "are to be kept (rule 2)",
    ),
    "commits purged too eagerly": PlantedBug(
        bugs.commits_purged_too_eagerly,
        "sources=v2-now:1 plan=min retain=100 flags=nodata arrivals=0,1 runs=",
        "are to be kept (rule 2)",
    ),
    "one batch too few retained": PlantedBug(
        bugs.one_batch_too_few_retained,
        "sources=v2-limit:2 plan=min retain=2 flags=nodata arrivals=1,2,1 runs=",
        "are to be kept (rule 2)",
    ),
    "source committed too early": PlantedBug(
        bugs.source_committed_too_early,
        "sources=v1-limit:2 plan=stateless retain=100 flags=nodata arrivals=1 runs=",
        "gets a commit of everything up to",
    ),
    "batch id incremented on failure": PlantedBug(
        bugs.batch_id_incremented_on_failure,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!eio-after@create_offsets#1",
        "without an entry in the offset log",
    ),
    "planned batch skipped": PlantedBug(
        bugs.planned_batch_skipped,
        "sources=v1-limit:2 plan=stateless retain=100 flags=nodata "
        "arrivals=2,1 runs=processing!eio-after@create_offsets#1",
        "while the last batch that is done",
    ),
    "planned batch decided anew": PlantedBug(
        bugs.planned_batch_decided_anew,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!eio-after@create_offsets#1",
        "is removed although",
    ),
    "commit log ignored on resume": PlantedBug(
        bugs.commit_log_ignored,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata arrivals=0 runs=processing",
        "again although it is done",
    ),
    "start offsets lost on resume": PlantedBug(
        bugs.start_offsets_lost,
        "sources=v1-limit:2 plan=min retain=100 flags=nodata arrivals=1 runs=processing",
        "the rows 0..",
    ),
    "V1 sources do not get the last batch again": PlantedBug(
        bugs.v1_sources_without_last_batch,
        "sources=v1-limit:2,v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0/0,1/0,0/1 runs=available",
        "rule 7",
    ),
    "no-data batches forgotten": PlantedBug(
        bugs.no_data_batches_forgotten,
        "sources=v2-now:2 plan=max retain=100 flags=nodata arrivals=1 runs=",
        "a batch without data was due",
    ),
    "batch without a reason": PlantedBug(
        bugs.batch_without_reason,
        "sources=v2-now:2 plan=stateless retain=100 flags=nodata arrivals=0 runs=",
        "no new data, and no state",
    ),
    "Once heeds read limits": PlantedBug(
        bugs.once_heeds_limits,
        "sources=v1-limit:2 plan=stateless retain=100 flags=nodata arrivals=2,1 runs=available",
        "in a single batch, but has",
    ),
    "read limits ignored": PlantedBug(
        bugs.limits_ignored,
        "sources=v1-limit:2 plan=stateless retain=100 flags=nodata arrivals=2,1 runs=",
        "beyond its read limit",
    ),
    "AvailableNow runs on": PlantedBug(
        bugs.available_now_runs_on,
        "sources=v2-now:2 plan=stateless retain=100 flags=nodata arrivals=0,1 runs=available",
        "at the start it had",
    ),
    "newest data instead of the logged": PlantedBug(
        bugs.newest_data_instead_of_logged,
        "sources=v2-now:1 plan=min retain=100 flags=nodata arrivals=0,1 runs=",
        "not what the offset log says",
    ),
    "error of a source swallowed": PlantedBug(
        bugs.source_error_swallowed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!raise@call_get_batch#1",
        "not what the offset log says",
    ),
    "error of the log swallowed": PlantedBug(
        bugs.log_error_swallowed,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!eio@create_offsets#1",
        "without an entry in the offset log",
    ),
    "commit on stop": PlantedBug(
        bugs.commit_on_stop,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!raise@after_planning#1",
        "before the sink has batch",
    ),
    "own write to a store taken for another's": PlantedBug(
        store_bugs.own_write_taken_for_anothers,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata,store "
        "arrivals=0 runs=processing!repeated@create_offsets#1",
        "one request failed at create_offsets",
    ),
    "another's write to a store recognised by its bytes": PlantedBug(
        store_bugs.recognised_by_bytes,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata,store "
        "arrivals=0 runs=processing!rival-unanswered@create_commits#1",
        "went on (rule 3)",
    ),
    "failed request to a store taken for done": PlantedBug(
        store_bugs.failed_request_taken_for_done,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata,store "
        "arrivals=0 runs=processing!storm@create_offsets#1",
        "without an entry in the offset log",
    ),
    "a checkpoint in a store is not checked": PlantedBug(
        store_bugs.store_not_checked,
        "sources=v2-now:1 plan=stateless retain=100 flags=nodata,store "
        "arrivals=1,1 runs=processing!gone@before_offset_log#2",
        "written although the checkpoint is gone",
    ),
    "metadata of the batch before lost": PlantedBug(
        bugs.batch_before_not_passed_on,
        "sources=v2-now:1 plan=min retain=100 flags=nodata arrivals=0,1 runs=",
        "what the batch before was decided with",
    ),
    "entries of sinks ignored": PlantedBug(
        sink_bugs.entries_of_sinks_ignored,
        "sources=v2-now:1 sinks=2 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!kill@after_sink_entry#1",
        "again although it has an entry",
    ),
    "entry before the sink": PlantedBug(
        sink_bugs.entry_before_sink,
        "sources=v2-now:1 sinks=1 plan=stateless retain=100 flags=nodata arrivals=0 runs=",
        "before it has the batch",
    ),
    "commit before all sinks": PlantedBug(
        sink_bugs.commit_before_all_sinks,
        "sources=v2-now:1 sinks=2 plan=stateless retain=100 flags=nodata "
        "arrivals=0 runs=processing!raise@sink_midway#2",
        "has an entry for it",
    ),
    "state not computed again": PlantedBug(
        sink_bugs.state_not_computed_again,
        "sources=v2-now:1 sinks=1 plan=min retain=100 flags=nodata "
        "arrivals=0 runs=processing!kill@after_sink#1",
        "before the sink has batch",
    ),
    "entries of sinks purged too eagerly": PlantedBug(
        sink_bugs.entries_of_sinks_purged_too_eagerly,
        "sources=v2-limit:1 sinks=1 plan=min retain=2 flags=nodata arrivals=4 runs=",
        "are to be kept (rule 2)",
    ),
    "entry without its plan": PlantedBug(
        sink_bugs.entry_without_its_plan,
        "sources=v2-now:1 sinks=1 plan=stateless retain=100 flags=nodata arrivals=0 runs=",
        "is of another plan",
    ),
    "names recorded at every start": PlantedBug(
        sink_bugs.names_recorded_at_every_start,
        "sources=v2-now:1 sinks=1 plan=stateless retain=100 flags=nodata arrivals=0 runs=once",
        "have not changed",
    ),
    "what is left out is not recorded": PlantedBug(
        quarantine_bugs.decision_not_recorded,
        f"{_POISON} runs=processing;processing",
        "not what the offset log says",
    ),
    "what is left out is decided again": PlantedBug(
        quarantine_bugs.decision_not_repeated,
        f"{_POISON} runs=processing;processing!kill@after_quarantine_record#1",
        "ConcurrentUpdateError",
    ),
    "what is left out comes back": PlantedBug(
        quarantine_bugs.fixed_query_takes_all_rows,
        f"{_POISON} runs=processing;processing!kill@after_quarantine_copy#1",
        "has failed often enough, and fails again",
    ),
    "more is left out than is recorded": PlantedBug(
        quarantine_bugs.one_more_part_left_out,
        f"{_POISON} runs=processing;processing",
        "not what the offset log says",
    ),
    "not copied after a crash": PlantedBug(
        quarantine_bugs.copied_only_when_decided,
        f"{_POISON} runs=processing;processing!kill@after_quarantine_record#1",
        "runs before what it leaves out is copied",
    ),
    "not copied before the sink has the batch": PlantedBug(
        quarantine_bugs.copied_after_the_batch,
        f"{_POISON} runs=processing;processing",
        "runs before what it leaves out is copied",
    ),
    "put aside after too few failures": PlantedBug(
        quarantine_bugs.one_failure_too_few,
        f"{_POISON} runs=processing".replace("after=1", "after=2"),
        "rows are left out after 1 failures",
    ),
    "failures forgotten": PlantedBug(
        quarantine_bugs.failures_removed_too_early,
        f"{_POISON} runs=processing".replace("after=1", "after=2"),
        "is removed before its commit",
    ),
    "a failing sink taken for the data": PlantedBug(
        quarantine_bugs.sink_taken_for_the_data,
        "sources=v2-now:1 after=1 poison= plan=stateless retain=100 flags=nodata "
        "arrivals=1 runs=processing!raise@before_sink#1",
        "are left out, and not all of them fail",
    ),
    "all rows put aside": PlantedBug(
        quarantine_bugs.all_rows_put_aside,
        "sources=v2-now:2 after=1 poison=0.0,0.1 plan=stateless retain=100 flags=nodata "
        "arrivals=2 runs=processing",
        "all rows of batch 0 are left out",
    ),
    "nothing put aside": PlantedBug(
        quarantine_bugs.nothing_ever_put_aside,
        f"{_POISON} runs=processing",
        "has failed often enough, and fails again",
    ),
}
