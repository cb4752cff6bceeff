"""Checks a checkpoint against every rule that a restart depends on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.own_files import BACKUPS, interrupted_command
from penstock.checkpoint.store_lock import CHANGING, holder_in
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.checkpoint.tools.backup import remedy_of
from penstock.checkpoint.tools.findings import (
    Finding,
    Severity,
    Verification,
    remedy_of_intact,
)
from penstock.checkpoint.tools.offset_text import as_text
from penstock.checkpoint.tools.quarantine_files import check_quarantine
from penstock.checkpoint.tools.sink_files import check_sinks
from penstock.checkpoint.tools.targets import possible_targets
from penstock.checkpoint.tools.verify_files import (
    check_checksums,
    check_file_sources,
    check_leftovers,
    check_operator_metadata,
    check_planned_files,
    check_state,
    not_empty,
)
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MalformedLogError

_ORDER = list(Severity)
_SAME = "the same"
_NOT_READ = "does not read it on restart"


def verify(view: CheckpointView) -> Verification:
    """Run every check, without changing anything."""
    checks = (
        _check_interrupted,
        _check_metadata,
        _check_newest_entries,
        _check_commit_position,
        _check_source_counts,
        _check_history,
        _check_watermark,
        check_checksums,
        check_state,
        check_operator_metadata,
        check_file_sources,
        check_planned_files,
        check_sinks,
        check_quarantine,
        check_leftovers,
    )
    findings = [finding for check in checks for finding in check(view)]
    findings.sort(key=lambda finding: _ORDER.index(finding.severity))
    return Verification(str(view.root), view.next_batch, view.is_planned, tuple(findings))


def _check_interrupted(view: CheckpointView) -> Iterator[Finding]:
    try:
        command = interrupted_command(view.root)
    except MalformedLogError as exc:
        yield Finding(
            Severity.ERROR,
            BACKUPS,
            str(exc).partition(" Restore")[0],
            "runs on the checkpoint as it is",
            "refuses to start",
            f"restore the file from another copy of the checkpoint, or {remedy_of(view.root)}",
        )
        return
    if command is not None:
        yield Finding(
            Severity.ERROR,
            view.relative(command.backup),
            f"`penstock checkpoint {command.operation}` was interrupted.",
            "runs on the partly changed checkpoint",
            "refuses to start until the command is undone",
            remedy_of(view.root),
        )
    elif isinstance(view.root, StorePath):
        yield from _check_lock(view)


def _check_lock(view: CheckpointView) -> Iterator[Finding]:
    holder = holder_in(view.directory.files, CHANGING)
    if holder is not None:
        yield Finding(
            Severity.ERROR,
            CHANGING,
            f"The checkpoint is being changed by {holder}.",
            "runs all the same",
            "refuses to start until the command has finished",
            "wait; if that process has ended, " + checkpoint_command("unlock", view.root, "--yes"),
        )


def _check_metadata(view: CheckpointView) -> Iterator[Finding]:
    """Rule 6: there is a query id if there are log entries."""
    try:
        metadata = StreamMetadata.read(view.directory.files)
    except CheckpointError as exc:
        yield Finding(
            Severity.ERROR,
            "metadata",
            str(exc).partition(" It should")[0],
            "fails with a JSON error that does not name the file",
            "fails: Error reading stream metadata from .../metadata",
            'restore the file from a backup, or write {"id":"<uuid>"} with the id that the '
            "progress of earlier runs shows",
        )
        return
    if metadata is None and (view.offsets.ids or view.commits.ids):
        yield Finding(
            Severity.ERROR,
            "metadata",
            "The file with the query's id is missing, but there are log entries.",
            "4.2 and newer fail: Checkpoint location ... is in an inconsistent state: the metadata "
            "file is missing but offset and/or commit logs contain data. Older versions use a new "
            "id, and a sink that remembers query ids writes old batches again",
            "fails with the message of 4.2",
            'restore the file, or write {"id":"<uuid>"} with the id that the progress of earlier '
            "runs shows",
        )
    elif metadata is None:
        yield _fresh()


def _fresh() -> Finding:
    text = "starts a new query at batch 0"
    return Finding(Severity.INFO, "metadata", "No query has run here yet.", text, text, "none")


def _check_newest_entries(view: CheckpointView) -> Iterator[Finding]:
    """Rule 2: the newest two offset entries and the newest commit can be read."""
    newest = view.newest_batch
    if newest is None:
        return
    for batch in (newest, newest - 1) if newest > 0 else (newest,):
        if batch in view.offsets.failures:
            yield _unreadable(view, "offsets", batch, view.offsets.failures[batch])
        elif batch not in view.offsets.entries:
            yield Finding(
                Severity.ERROR,
                f"offsets/{batch}",
                f"The entry is missing; batch {newest} starts where it ends.",
                f"fails: batch {batch} doesn't exist",
                f"fails: batch {batch} doesn't exist: offsets/{batch} is needed to run batch "
                f"{newest}",
                _rewind_remedy(view, "restore the file"),
            )
    committed = view.commits.newest
    if committed is not None and committed in view.commits.failures:
        yield _unreadable(view, "commits", committed, view.commits.failures[committed])


def _unreadable(
    view: CheckpointView, log: str, batch: int, error: CheckpointError | OSError
) -> Finding:
    path = view.root / log / str(batch)
    why = str(error).partition("\n")[0]
    spark = "fails: Failed to read log file ..., or with a JSON error that does not name the file"
    remedy = remedy_of_intact(error, path)
    if remedy is not None:
        problem = f"The entry cannot be read. {why}"
        spark = "fails too, if it cannot read the file either"
    else:
        what = "empty" if path.stat().st_size == 0 else "truncated or damaged"
        problem = f"The entry is {what}. {why}"
        remedy = _remedy_of_damaged(view, log, batch)
    return Finding(Severity.ERROR, f"{log}/{batch}", problem, spark, f"fails: {why}", remedy)


def _remedy_of_damaged(view: CheckpointView, log: str, batch: int) -> str:
    path = view.root / log / str(batch)
    if log == "commits":
        return f"move {path} away: batch {batch} then runs again, with the same offsets and id"
    if batch == view.newest_batch and batch not in view.commits.ids:
        return f"move {path} away: batch {batch} had not run, and is then planned anew"
    return f"restore {path} from a backup"


def _check_commit_position(view: CheckpointView) -> Iterator[Finding]:
    """Rule 2: the newest commit is the newest batch or the one before."""
    newest, committed = view.newest_batch, view.commits.newest
    if committed is not None and newest is None:
        yield _commits_only(view, committed)
    elif committed is not None and newest is not None and committed > newest:
        yield Finding(
            Severity.ERROR,
            f"commits/{committed}",
            f"Batch {committed} is committed, but the offset log is at {newest}.",
            f"runs batch {newest} again, so that its output is written twice, and then fails: "
            f"Concurrent update to the log. Multiple streaming jobs detected for {newest}",
            f"fails: batch {committed} doesn't exist in the offset log",
            _rewind_remedy(view, f"restore offsets/{committed}"),
        )
    elif newest is not None and newest > 0 and committed is None:
        yield Finding(
            Severity.WARNING,
            "commits",
            f"No batch is committed, although batch {newest} is planned.",
            f"logs `no commit log present` and runs batch {newest}; treats batch {newest - 1} as "
            "done",
            _SAME,
            f"if batch {newest - 1} was not done, its input is lost: restore commits/",
        )
    elif newest is not None and committed is not None and committed < newest - 1:
        yield Finding(
            Severity.ERROR,
            f"commits/{committed}",
            f"Batch {newest} is planned, but the newest commit is {committed}. Batches "
            f"{committed + 1} to {newest - 1} have no commit.",
            f"warns: Batch completion log latest batch id is {committed}, which is not trailing "
            f"batchid {newest} by one; then runs batch {newest} and treats those between as done",
            _SAME,
            "if they were done, nothing (asynchronous progress tracking leaves this); if not, "
            + checkpoint_command("rewind", view.root, "--to", committed, "--yes"),
        )


def _commits_only(view: CheckpointView, committed: int) -> Finding:
    message = not_empty(view, "commits")
    return Finding(
        Severity.ERROR,
        f"commits/{committed}",
        f"Batch {committed} is committed, but the offset log is empty.",
        f"4.1 and newer fail: {message}. Older versions start again with batch 0, so that output "
        "is written twice, and fail if it has a commit: Concurrent update to the log",
        f"fails: {message}",
        "restore the offset log, or start over in a new directory",
    )


def _check_source_counts(view: CheckpointView) -> Iterator[Finding]:
    """Rule 8: the newest two entries, which a restart reads, have the same number of sources."""
    newest = view.newest_batch
    if newest is None:
        return
    entries = {b: e for b, e in view.offsets.entries.items() if e.source_ids is None}
    if newest not in entries:
        return
    now = len(entries[newest].offsets)
    before = entries.get(newest - 1)
    if before is not None and len(before.offsets) != now:
        was = len(before.offsets)
        message = (
            f"There are [{was} or {now}] sources in the checkpoint offsets and now there are [...] "
            "sources requested by the query. Cannot continue."
        )
        yield Finding(
            Severity.ERROR,
            f"offsets/{newest - 1}",
            f"It has {was} sources, offsets/{newest} has {now}.",
            f"fails: {message}",
            f"fails: {message}",
            f"{checkpoint_command('undo', view.root, '--yes')} if a command left this, else "
            "restore the entry",
        )
    older = [b for b, e in entries.items() if b < newest - 1 and len(e.offsets) != now]
    if older:
        yield Finding(
            Severity.INFO,
            f"offsets/{max(older)}",
            f"Entries up to this one have another number of sources than now ({now}).",
            _NOT_READ,
            _NOT_READ,
            "none; a rewind to them is not possible, since the query has other sources now",
        )


def _check_history(view: CheckpointView) -> Iterator[Finding]:
    """Checks the older entries, which a rewind reads but a restart does not."""
    ids = view.offsets.ids
    recent = set(ids[-2:])
    for batch in view.offsets.failures:
        if batch not in recent:
            why = view.offsets.problem(batch)
            yield _old_entry(f"offsets/{batch}", f"The entry cannot be read. {why}")
    for batch in view.commits.failures:
        if batch != view.commits.newest:
            why = view.commits.problem(batch)
            yield _old_entry(f"commits/{batch}", f"The entry cannot be read. {why}")
    for name, found in (("offsets", ids[:-1]), ("commits", view.commits.ids)):
        gaps = [range(a + 1, b) for a, b in pairwise(found) if b - a > 1]
        if gaps:
            listed = ", ".join(map(as_text, gaps[:5])) + (" ..." if len(gaps) > 5 else "")
            yield _old_entry(
                f"{name}/{gaps[0].start}", f"Entries are missing in between: {listed}."
            )


def _old_entry(file: str, problem: str) -> Finding:
    return Finding(
        Severity.WARNING,
        file,
        problem,
        _NOT_READ,
        _NOT_READ,
        "none; a rewind to this entry is not possible",
    )


def _check_watermark(view: CheckpointView) -> Iterator[Finding]:
    """Rule 4: the watermark never decreases from one entry of the two logs to the next."""
    reached, where = 0, ""
    for batch in view.offsets.ids:
        entry, commit = view.offsets.entries.get(batch), view.commits.entries.get(batch)
        if entry is not None and entry.metadata is not None:
            watermark = entry.metadata.batch_watermark_ms
            if watermark < reached:
                yield Finding(
                    Severity.WARNING,
                    f"offsets/{batch}",
                    f"The watermark decreases, from {reached} in {where} to {watermark}.",
                    "continues with the larger of the newest two; rows may be dropped as late that "
                    "were not, or state kept longer",
                    _SAME,
                    "none if the query was rewound or its watermark changed; else two queries have "
                    "used this checkpoint",
                )
            reached, where = watermark, f"offsets/{batch}"
        if commit is not None and commit.next_batch_watermark_ms > reached:
            reached, where = commit.next_batch_watermark_ms, f"commits/{batch}"


def _rewind_remedy(view: CheckpointView, otherwise: str) -> str:
    """`otherwise`, and a rewind to the newest possible batch, if there is one."""
    targets = possible_targets(view)
    if not targets:
        return otherwise
    return f"{otherwise}, or {checkpoint_command('rewind', view.root, '--to', targets[-1])}"
