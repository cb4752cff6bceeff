"""Plans changes to the sources in a checkpoint: an offset, their number, their order.

A restart reads the newest two entries of the offset log, so only these are rewritten. After a
change of number or order, a rewind to older entries is refused. The functions return a Plan or
raise SurgeryRefusedError; they change no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.json_text import to_json
from penstock.checkpoint.known_offsets import KafkaOffset, parse_known
from penstock.checkpoint.offset_seq import VOID_OFFSET, OffsetSeq
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.tools.changes import Change, Kind, Plan, delete_files, replace_file
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.checkpoint.tools.offset_text import movement
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError


def set_offset(view: CheckpointView, source: str, offset: str) -> Plan:
    """Make the next batch of a source start at another offset; `-` is its initial offset.

    The offset is written to the newest two entries: the next batch starts at the newest, and on a
    restart V1 sources get `getBatch` for the range between the two, which must not be negative. No
    batch is run again because of it.
    """
    newest = newest_committed(view, "set-offset")
    position = position_of(view.entry(newest), source)
    parsed = parse_offset(offset)
    old = view.entry(newest).offsets[position]
    cut = _cut_file_log(view, view.root / "sources" / source, parsed)

    def changed(entry: OffsetSeq) -> OffsetSeq:
        if entry.source_ids is not None and source not in entry.source_ids:
            return entry
        offsets = list(entry.offsets)
        offsets[position_of(entry, source)] = parsed
        return replace(entry, offsets=tuple(offsets))

    also = f" and offsets/{newest - 1}" if newest > 0 else ""
    return Plan(
        operation=f"set-offset {source}",
        outcome=(
            f"Batch {newest + 1} of source {source} starts at {parsed or 'its beginning'} instead "
            f"of {old or 'its beginning'}. offsets/{newest}{also} are rewritten; the output of "
            f"batch {newest} does not change."
        ),
        changes=(*_rewrite(view, changed), *cut),
        warnings=_offset_warnings(view, source, old, parsed),
    )


def add_source(view: CheckpointView, at: str | None = None, offset: str = VOID_OFFSET) -> Plan:
    """Add a source: at a position, at the end, or with a new name.

    With the offset `-` the source starts at its begin.
    """
    newest = _newest(view, "add-source")
    entry = view.entry(newest)
    parsed = parse_offset(offset)
    if entry.source_ids is not None and not _is_positional(entry):
        return _add_named(view, entry, at, parsed)
    count = len(entry.offsets) if entry.source_ids is None else _positions(entry)
    index = count if at is None else _number(at, count + 1, "a position")
    order: list[int | None] = [*range(index), None, *range(index, count)]
    return Plan(
        operation=f"add-source --at {index}",
        outcome=f"The query must now have {count + 1} sources; number {index} is new and starts at "
        f"{parsed or 'its beginning'}.",
        changes=tuple(_reordered(view, order, parsed)),
        warnings=_plan_warnings(view),
    )


def remove_source(view: CheckpointView, source: str) -> Plan:
    """Remove a source; the positions of those after it decrease by one."""
    newest = _newest(view, "remove-source")
    entry = view.entry(newest)
    position = position_of(entry, source)
    if len(entry.offsets) == 1:
        raise SurgeryRefusedError(
            "It is the only source, and a query needs at least one. Use a new checkpoint instead."
        )
    offset = entry.offsets[position] or "its beginning"
    if entry.source_ids is not None and not _is_positional(entry):
        changes = _remove_named(view, source)
    else:
        number = position if entry.source_ids is None else int(entry.source_ids[position])
        count = len(entry.offsets) if entry.source_ids is None else _positions(entry)
        changes = _reordered(view, [i for i in range(count) if i != number], None)
    return Plan(
        operation=f"remove-source {source}",
        outcome=f"Source {source}, at {offset}, is removed: the query must no longer have it.",
        changes=tuple(changes),
        warnings=_plan_warnings(view),
    )


def reorder_sources(view: CheckpointView, order: Sequence[int]) -> Plan:
    """Change the order of the sources: `2 0 1` makes source 2 the first one."""
    entry = view.entry(_newest(view, "reorder-sources"))
    if entry.source_ids is not None and not _is_positional(entry):
        raise SurgeryRefusedError(
            "The sources have names, so their order does not matter. There is nothing to change."
        )
    count = len(entry.offsets) if entry.source_ids is None else _positions(entry)
    if sorted(order) != list(range(count)):
        raise SurgeryRefusedError(
            f"{' '.join(map(str, order))} is not an order of the {count} sources: name each of "
            f"{' '.join(map(str, range(count)))} once."
        )
    if list(order) == list(range(count)):
        raise SurgeryRefusedError("The sources are in this order already.")
    return Plan(
        operation=f"reorder-sources {' '.join(map(str, order))}",
        outcome="The query must have its sources in the new order: "
        + ", ".join(f"{new} was {old}" for new, old in enumerate(order)),
        changes=tuple(_reordered(view, list(order), None)),
    )


def position_of(entry: OffsetSeq, source: str) -> int:
    """The position of a source's offset in an entry, given its number or name."""
    names = entry.source_names
    if source not in names:
        raise SurgeryRefusedError(f"There is no source {source!r}; there are {', '.join(names)}.")
    return names.index(source)


def parse_offset(text: str) -> str | None:
    """Normalize an offset to one line of JSON; None for `-`. Raises SurgeryRefusedError."""
    if text.strip() == VOID_OFFSET:
        return None
    try:
        return to_json(json.loads(text, parse_constant=_finite, parse_float=_finite))
    except ValueError as exc:
        raise SurgeryRefusedError(
            f"{text!r} is not JSON ({exc}). An offset is JSON, as `penstock checkpoint show DIR "
            "N` prints it; quote it for your shell."
        ) from exc


def _finite(text: str) -> float:
    """The number of a literal. Raises ValueError for NaN and infinity, which are no JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number in JSON")
    return number


def _newest(view: CheckpointView, operation: str) -> int:
    newest = view.newest_batch
    if newest is None:
        raise SurgeryRefusedError(f"There is nothing to {operation}: no batch has been planned.")
    view.entry(newest)
    if newest > 0:
        view.entry(newest - 1)
    return newest


def newest_committed(view: CheckpointView, operation: str) -> int:
    """The newest batch, with its entries. Raises SurgeryRefusedError if it is not committed."""
    newest = _newest(view, operation)
    if view.is_planned:
        raise SurgeryRefusedError(
            f"Batch {newest} is planned and runs first on restart, with its recorded offsets. "
            f"Remove its plan first: {checkpoint_command('replan', view.root, '--yes')}"
        )
    return newest


def _cut_file_log(view: CheckpointView, directory: CheckpointPath, new: str | None) -> list[Change]:
    """For a file source, delete the entries of its log after the new offset; else no change."""
    log = CompactibleLog.scan(directory)
    if not log.is_file_log:
        return []
    number = log_offset(new)
    if number is None or number < -1:
        raise SurgeryRefusedError(
            f'This is a file source: its offset is {{"logOffset":N}}, not {new}.'
        )
    if number > log.newest:
        raise SurgeryRefusedError(
            f"The log of the file source has entries up to {log.newest} only, so the offset cannot "
            f"be {number}. Files that are not in the log yet cannot be skipped with set-offset."
        )
    return delete_files(view.root, log.beyond(number))


def _rewrite(view: CheckpointView, changed: Callable[[OffsetSeq], OffsetSeq]) -> list[Change]:
    """Rewrite the newest two entries, the newest one last."""
    newest = view.newest_batch or 0
    changes: list[Change] = []
    for batch in (newest - 1, newest) if newest > 0 else (newest,):
        before = view.entry(batch)
        after = changed(before)
        if after != before:
            content = view.directory.offset_log.serialize(after)
            changes += replace_file(view.root, f"offsets/{batch}", content)
    return changes


def _reordered(
    view: CheckpointView, order: Sequence[int | None], new_offset: str | None
) -> list[Change]:
    """Rewrite entries and move directories for a new order; None in it is a new source."""
    count = len(view.entry(view.newest_batch or 0).offsets)

    def changed(entry: OffsetSeq) -> OffsetSeq:
        if entry.source_ids is not None:
            offsets = dict(zip(entry.source_ids, entry.offsets, strict=True))
            pairs = [
                (str(new), new_offset if old is None else offsets[str(old)])
                for new, old in enumerate(order)
                if (old is None and new_offset is not None) or str(old) in offsets
            ]
            return replace(
                entry,
                source_ids=tuple(name for name, _ in pairs),
                offsets=tuple(offset for _, offset in pairs),
            )
        if len(entry.offsets) != count:
            raise SurgeryRefusedError(
                "The newest two entries have different numbers of sources. Run "
                f"{checkpoint_command('verify', view.root)} first."
            )
        return replace(
            entry,
            offsets=tuple(new_offset if old is None else entry.offsets[old] for old in order),
        )

    return [*_rewrite(view, changed), *_moved_directories(view, order)]


def _moved_directories(view: CheckpointView, order: Sequence[int | None]) -> list[Change]:
    """Rename `sources/<n>` for the new order, by way of a temporary directory."""
    root = view.root
    kept = {old: new for new, old in enumerate(order) if old is not None}
    numbers = [file_number(p.name) for p in (root / "sources").glob("*") if p.is_dir()]
    existing = [number for number in numbers if number is not None]
    gone = [old for old in existing if old not in kept]
    moving = sorted(old for old in existing if kept.get(old, old) != old)
    staging = f"{OWN_DIRECTORY}/moving"
    return [
        *(Change(Kind.DELETE, f"sources/{old}") for old in gone),
        *(Change(Kind.MOVE, f"sources/{old}", target=f"{staging}/{old}") for old in moving),
        *(Change(Kind.MOVE, f"{staging}/{old}", target=f"sources/{kept[old]}") for old in moving),
    ]


def _add_named(
    view: CheckpointView, entry: OffsetSeq, name: str | None, offset: str | None
) -> Plan:
    if name is None or name in (entry.source_ids or ()):
        raise SurgeryRefusedError(
            f"The sources have names ({', '.join(entry.source_ids or ())}): give a new name with "
            "--at."
        )
    if offset is None:
        raise SurgeryRefusedError(
            "The sources have names: a new one needs no entry in the checkpoint. Add it to the "
            "query and it starts at its beginning; give --offset to start it elsewhere."
        )

    def changed(old: OffsetSeq) -> OffsetSeq:
        names, offsets = (*(old.source_ids or ()), name or ""), (*old.offsets, offset)
        return replace(old, source_ids=names, offsets=offsets)

    return Plan(
        operation=f"add-source --at {name}",
        outcome=f"The source {name} may be added to the query; it starts at {offset}.",
        changes=tuple(_rewrite(view, changed)),
        warnings=_plan_warnings(view),
    )


def _remove_named(view: CheckpointView, name: str) -> list[Change]:
    def changed(old: OffsetSeq) -> OffsetSeq:
        kept = [
            pair for pair in zip(old.source_ids or (), old.offsets, strict=True) if pair[0] != name
        ]
        return replace(old, source_ids=tuple(n for n, _ in kept), offsets=tuple(o for _, o in kept))

    directory = view.root / "sources" / name
    gone = [Change(Kind.DELETE, f"sources/{name}")] if directory.exists() else []
    return [*_rewrite(view, changed), *gone]


def _is_positional(entry: OffsetSeq) -> bool:
    """Whether all names in an entry of format v2 are positions."""
    return all(file_number(name) is not None for name in entry.source_ids or ())


def _positions(entry: OffsetSeq) -> int:
    return max((int(name) for name in entry.source_ids or ()), default=-1) + 1


def _number(text: str, below: int, what: str) -> int:
    number = file_number(text)
    if number is None or number >= below:
        raise SurgeryRefusedError(f"{text!r} is not {what} from 0 to {below - 1}.")
    return number


def _offset_warnings(
    view: CheckpointView, source: str, old: str | None, new: str | None
) -> tuple[str, ...]:
    warnings = [
        "If the offset moves forward, the input in between is never processed. If it moves back, "
        "that input is processed again, in batches with new ids, and every sink gets it twice."
    ]
    if not view.state.is_empty:
        warnings.append(
            "This query keeps state: input processed again is counted again, and rows older than "
            "the watermark are dropped."
        )
    if old is not None and new is not None and _shape(old) != _shape(new):
        warnings.append(
            f"{new} has another form than the current offset of source {source}, {old}. A source "
            "fails on restart if it cannot read its offset."
        )
    return (*warnings, *_partitions_warning(old, new))


def _partitions_warning(old: str | None, new: str | None) -> tuple[str, ...]:
    """A warning if an offset of Kafka has other partitions than the current one."""
    before, after = parse_known(old), parse_known(new)
    if not (isinstance(before, KafkaOffset) and isinstance(after, KafkaOffset)):
        return ()
    if before.partitions.keys() == after.partitions.keys():
        return ()
    return (
        f"The partitions are not those of the current offset ({movement(old, new)}). A partition "
        "without an offset starts at its beginning; one that its topic does not have makes the "
        "query fail, unless the option failOnDataLoss is false.",
    )


def _plan_warnings(view: CheckpointView) -> tuple[str, ...]:
    if view.state.is_empty:
        return ()
    return (
        "This query keeps state. Sources may be added or removed below a stateful operator only if "
        "its schema and the number and order of stateful operators do not change.",
    )


def _shape(offset: str) -> object:
    """The type of an offset, or the keys if it is an object."""
    try:
        value = json.loads(offset)
    except ValueError:
        return str
    return tuple(sorted(value)) if isinstance(value, dict) else type(value)
