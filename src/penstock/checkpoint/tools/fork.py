"""A copy of a checkpoint that another query can continue from."""

from __future__ import annotations

import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.checkpoint.local_files import LocalFiles, twin_of
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.stream_metadata import FILE_NAME, StreamMetadata
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.activity import activity_of
from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.checkpoint.tools.surgery import rewind, source_directories
from penstock.checkpoint.tools.targets import Targets
from penstock.checkpoint.tools.view import CheckpointView, local_path
from penstock.errors import CheckpointError, SurgeryRefusedError

_SCHEMA_PATH = re.compile(r'"file:[^"]*?(/state/\d+/_stateSchema/[^"]*)"')


@dataclass(frozen=True)
class Fork:
    """The result of a fork."""

    path: Path
    query_id: str
    at: int | None
    next_batch: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "queryId": self.query_id,
            "at": self.at,
            "nextBatch": self.next_batch,
            "warnings": list(self.warnings),
        }


def fork(view: CheckpointView, location: str | Path, at: int | None = None) -> Fork:
    """Copy a checkpoint to a new directory under a new query id. The original is only read.

    With `at`, the copy continues after that batch; raises SurgeryRefusedError if it cannot be
    rewound to it. While a query may be running on the original, `at` is its newest committed batch,
    because later files may still change. The copy is made under a temporary name and then renamed.
    """
    new = local_path(location)
    _require_free(view.root, new)
    warnings = [
        "Give the copy's query its own output. A file sink that already has batches with these "
        "ids skips them; any other sink would get the same input twice."
    ]
    activity = activity_of(view.root)
    if at is None and activity.warning is not None and view.commits.newest is not None:
        at = view.commits.newest
        warnings.append(f"{activity.warning} The copy was made at batch {at}.")
    if at is not None:
        rewind(view, at)
    new.parent.mkdir(parents=True, exist_ok=True)
    draft = new.with_name(f".{new.name}.{uuid.uuid4()}.forking")
    try:
        _copy(view, draft)
        if at is not None:
            backup.apply(draft, rewind(CheckpointView(draft), at))
            shutil.rmtree(draft / OWN_DIRECTORY)
        warnings += _rebase_schema_paths(draft, new)
        identity = StreamMetadata.new()
        identity.write(LocalFiles(draft))
        next_batch = CheckpointView(draft).next_batch
        if new.exists():
            new.rmdir()
        draft.rename(new)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Fork(new, identity.id, at, next_batch, tuple(warnings))


def fork_before(view: CheckpointView, location: str | Path, batch: int) -> Fork:
    """Copy a checkpoint like `fork`, so that the copy plans batch `batch` next."""
    if batch > 0:
        return fork(view, location, at=batch - 1)
    made = fork(view, location)
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(made.path / name, ignore_errors=True)
    for directory in source_directories(CheckpointView(made.path)):
        if CompactibleLog.scan(directory).is_file_log:
            shutil.rmtree(directory)
    return replace(made, at=None, next_batch=0)


def _require_free(root: Path, new: Path) -> None:
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise SurgeryRefusedError(f"{new} is not empty. Name a directory that does not exist.")
    if new.is_relative_to(root) or root.is_relative_to(new):
        raise SurgeryRefusedError(
            f"One of {new} and {root} is inside the other. Name another directory."
        )


def _copy(view: CheckpointView, draft: Path) -> None:
    """Copy a checkpoint. Symbolic links are followed, since the copy is going to be changed.

    The backups are left out, and so are entries from before a change of sources: without the
    backups, a rewind could not tell that these entries belong to other sources.
    """
    root, oldest = view.root, Targets(view).oldest_entry
    left_out = {root: {OWN_DIRECTORY, FILE_NAME, twin_of(Path(FILE_NAME)).name}}
    for log, ids in (("offsets", view.offsets.ids), ("commits", view.commits.ids)):
        old = [Path(str(batch)) for batch in ids if batch < oldest]
        left_out[root / log] = {name for path in old for name in (path.name, twin_of(path).name)}

    def ignored(directory: str, names: list[str]) -> set[str]:
        unwanted = {draft.name, *left_out.get(Path(directory), ())}
        return {name for name in names if name in unwanted or name.endswith(".tmp")}

    try:
        shutil.copytree(root, draft, ignore=ignored, copy_function=_copy_unless_gone)
    except shutil.Error as exc:
        failures = [why for _, _, why in exc.args[0]]
        more = f", and {len(failures) - 1} more such errors" if len(failures) > 1 else ""
        raise CheckpointError(f"{root} cannot be copied: {failures[0]}{more}.") from exc


def _copy_unless_gone(source: str, target: str) -> None:
    """Copy a file unless a running query has purged it. Required files are checked later."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


def _rebase_schema_paths(draft: Path, new: Path) -> list[str]:
    """Replace the full paths of schema files in operator metadata by those of the copy.

    Returns a warning if there are paths that are not local.
    """
    for path in sorted(draft.glob("state/*/_metadata/v2/*")):
        if not path.name.isdigit():
            continue
        text = path.read_text()
        rebased = _SCHEMA_PATH.sub(lambda match: f'"file:{new.as_posix()}{match[1]}"', text)
        if rebased != text:
            path.write_text(rebased)
            twin_of(path).unlink(missing_ok=True)
        elif "_stateSchema" in text:
            return [
                "The metadata of a stateful operator has schema files with a path that is not "
                "local; the path still refers to the original."
            ]
    return []
