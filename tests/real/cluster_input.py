"""The input and the expected output of the pipelines on a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.crash.pipelines import PIPELINES, Rows, Workspace, written_files
from tests.killing import newest
from tests.real.cluster_job import NAMES
from tests.real.kills import Output

_AHEAD = 4


class ClusterInput(Output):
    """Adds the same files to the workspaces of the pipelines, and compares what they wrote."""

    def __init__(self, directory: Path, names: Sequence[str] = NAMES) -> None:
        self.works = {name: Workspace(directory / name) for name in names}
        self._lock = threading.Lock()

    def add(self, files: int) -> None:
        with self._lock:
            for work in self.works.values():
                work.add_files(files)

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """In the block, add files so that each query always has a few more batches to run."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(0.1):
                if self._files_ahead() < _AHEAD:
                    self.add(1)

        thread = threading.Thread(target=run, name="input", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _files_ahead(self) -> int:
        """The files that the slowest query has not committed; each file is a batch."""
        work = next(iter(self.works.values()))
        done = min(newest(path, "commits") for path in self.checkpoints().values())
        return len(list(work.left.glob("*.json"))) - (done + 1)

    def close(self) -> None:
        for work in self.works.values():
            work.close()

    def checkpoints(self) -> dict[str, Path]:
        return {name: work.checkpoint for name, work in self.works.items()}

    def rows_read(self) -> dict[str, int]:
        """The rows of the input, both sides of the join."""
        sides = {"windowed": ("left",), "joined": ("left", "right")}
        return {
            name: sum(len(list(work.rows(work.root / side))) for side in sides[name])
            for name, work in self.works.items()
        }

    def rows_written(self) -> dict[str, int]:
        return {name: self.written(name).total() for name in self.works}

    def names(self) -> Iterable[str]:
        return self.works

    def expected(self, name: str) -> Rows:
        return PIPELINES[name].expected(self.works[name])

    def written(self, name: str) -> Rows:
        table = self.works[name].table
        return written_files(table) if (table / "_spark_metadata").exists() else Rows()

    def extra(self) -> list[str]:
        with self._lock:  # no file is being added
            return super().extra()
