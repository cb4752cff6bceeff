"""What outlives a process: the files, the rows of the sources, the sink, and the clock."""

from __future__ import annotations

import threading

from penstock.checkpoint.quarantine_log import FAILURES
from penstock.checkpoint.sink_entries import SINKS
from penstock.checkpoint.stream_metadata import FILE_NAME
from penstock.engine.clock import Clock
from tests.memory_world.files import Directories, MemoryFiles
from tests.simulation.checker import Checker
from tests.simulation.life import Life
from tests.simulation.replacements import as_another_query_has_it, without_batch
from tests.simulation.schedule import Fault, FaultKind, Schedule

_START_MS = 1_600_000_000_000
_LISTINGS_KEPT = 3


class World(Clock):
    """The durable state of a simulation, and its clock, which advances whenever it is read.

    The checker sees every change first, and ends a process that violates the protocol.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.shape = schedule.shape
        self.rows = list(schedule.arrivals[0])
        self.discarded = [0] * len(self.rows)
        self.torn: set[str] = set()
        self.query_is_fixed = False
        self.checker = Checker(self.shape, self.rows, self.discarded, self.torn)
        self.files = MemoryFiles()
        self.marks: dict[str, str] = {}
        self._listings: dict[str, list[list[str]]] = {}
        self._away: MemoryFiles | None = None
        self._marks_away: dict[str, str] = {}
        self._arrived = 1
        self.now_ms = _START_MS

    def fork(self) -> World:
        """A copy, to continue in another way. Call it only between runs."""
        other = World(self.schedule)
        other.rows[:] = self.rows
        other.discarded[:] = self.discarded
        other.torn.update(self.torn)
        other.query_is_fixed = self.query_is_fixed
        other.checker.ledger.take_over(self.checker.ledger)
        other.checker.violations.extend(self.checker.violations)
        stored = self.files.directories.items()
        other.files = MemoryFiles({name: dict(files) for name, files in stored})
        other.marks = dict(self.marks)
        other._listings = {name: list(lists) for name, lists in self._listings.items()}
        other._arrived = self._arrived
        other.now_ms = self.now_ms
        return other

    def is_in_same_state(self, other: World) -> bool:
        """Whether this is another world of the same query in the same state, between two runs.

        The query id and the marks of files are random. They are not compared: a later run sees that
        it has not written the files itself, whatever they are.
        """
        return (
            self.now_ms == other.now_ms
            and self._arrived == other._arrived
            and self.rows == other.rows
            and self.discarded == other.discarded
            and self.torn == other.torn
            and self.query_is_fixed == other.query_is_fixed
            and self.marks.keys() == other.marks.keys()
            and self._listings == other._listings
            and _without_query_id(self.files) == _without_query_id(other.files)
            and self.checker.ledger == other.checker.ledger
        )

    # Time and input.

    def time_millis(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def elapsed_millis(self) -> float:
        return 0.0

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        self.now_ms = max(self.now_ms, target_ms)
        return self.now_ms

    def let_rows_arrive(self) -> None:
        """Add the rows of the schedule's next arrival, if there is one."""
        if self._arrived < len(self.schedule.arrivals):
            for source, count in enumerate(self.schedule.arrivals[self._arrived]):
                self.rows[source] += count
            self._arrived += 1

    @property
    def all_arrived(self) -> bool:
        return self._arrived == len(self.schedule.arrivals)

    # The checkpoint as a whole.

    def take_checkpoint_away(self, fault: Fault) -> None:
        """Replace the checkpoint, until `bring_checkpoint_back`.

        Does nothing for an older copy if the sink does not have the batch that the copy lacks,
        since a run on that copy is correct. Nor if a file is torn, since a run then fails anyway.
        Nor between the check of an object store and a write: it has no directory to be missing.
        """
        kind = fault.kind
        if self.shape.on_object_store and fault.site.startswith("create_"):
            return
        latest = self.checker.ledger.latest_decision
        is_same = kind is FaultKind.OLDER and latest not in self.checker.ledger.written
        if self._away is not None or self.torn or is_same:
            return
        self._away = self.files
        self._marks_away = dict(self.marks)
        self.checker.book.checkpoint_away = kind
        match kind:
            case FaultKind.GONE:
                self.files = MemoryFiles()
            case FaultKind.EMPTIED:
                self.files = MemoryFiles({"": {}})
            case FaultKind.OLDER:
                self.files = MemoryFiles(without_batch(self._away.directories, latest))
            case FaultKind.FOREIGN:
                self.files = MemoryFiles(as_another_query_has_it(self._away.directories))
                self.marks = {}

    def bring_checkpoint_back(self) -> None:
        """Restore the checkpoint, without what was written to its replacement."""
        if self._away is not None:
            self.files, self._away = self._away, None
            self.marks = self._marks_away

    # Files.

    def names_a_moment_ago(self, directory: str) -> list[str]:
        """The names two changes ago."""
        listings = self._listings.get(directory, [[]])
        return listings[-_LISTINGS_KEPT] if len(listings) >= _LISTINGS_KEPT else []

    def create(self, life: Life, name: str, data: bytes) -> None:
        """Create a complete file, after a check. An existing file is overwritten."""
        if self._away is not None and self.shape.on_object_store and name.startswith(FAILURES):
            self.place(name, data)  # the failure is lost; nothing depends on it
            return
        if self._is_written_without_check(name):
            self.checker.book.commit_is_lost = True
            self.place(name, data)
            return
        self.checker.file_created(life, name, data, overwrites=self.files.find(name) is not None)
        self.place(name, data)

    def _is_written_without_check(self, name: str) -> bool:
        """Whether this belongs to the planned batch, in an object store that was just replaced.

        The checkpoint is not checked between planning a short batch and committing it. The commit
        and the entries of sinks are lost, but the batch that they belong to is in the real
        checkpoint: it runs again, as it would if they had been refused (docs/adr/0021).
        """
        directory, _, number = name.rpartition("/")
        is_of_plan = number == str(self.checker.ledger.latest_decision)
        is_log = directory == "commits" or directory.startswith(f"{SINKS}/")
        return self.shape.on_object_store and self._away is not None and is_of_plan and is_log

    def create_by_rival(self, life: Life, name: str, data: bytes) -> None:
        """Create a file as another run, which may also write to a replaced checkpoint."""
        if self._away is None:
            self.create(life, name, data)
        else:
            self.place(name, data)

    def tear(self, name: str, data: bytes) -> None:
        """Create a truncated file."""
        if self._away is None:
            self.torn.add(name)
        self.place(name, data)

    def place(self, name: str, data: bytes) -> None:
        """Create or replace a file, without a check."""
        self.files.place(name, data)
        self._remember_listing(name)

    def remove(self, life: Life, name: str) -> None:
        if self.files.find(name) is not None:
            self.checker.file_removed(life, name)
            self._discard(name)

    def move_torn_files_away(self) -> None:
        """Do what the error message about a torn file says."""
        for name in self.torn:
            self._discard(name)
        self.torn.clear()

    def _discard(self, name: str) -> None:
        self.files.delete(name)
        self._remember_listing(name)

    def _remember_listing(self, name: str) -> None:
        directory = name.rpartition("/")[0]
        listings = self._listings.setdefault(directory, [[]])
        listings.append(self.files.list_names(directory))
        del listings[:-_LISTINGS_KEPT]


def _without_query_id(files: MemoryFiles) -> Directories:
    """The files, with as many dashes in `metadata` as it has bytes: a torn one has fewer."""
    directories = dict(files.directories)
    root = directories.get("", {})
    if FILE_NAME in root:
        directories[""] = {**root, FILE_NAME: b"-" * len(root[FILE_NAME])}
    return directories
