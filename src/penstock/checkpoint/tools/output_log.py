"""The log of a file sink's output, for the commands that plan batches anew."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools.changes import Change, delete_files
from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.checkpoint.tools.locations import location_of
from penstock.errors import SurgeryRefusedError

SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class OutputLog:
    """The log in the output directory of a file sink, from which later batches are to be cut."""

    output: CheckpointPath
    log: CompactibleLog

    @classmethod
    def of(cls, output: CheckpointPath, root: CheckpointPath, batch: int) -> OutputLog:
        """Read which entries the log of `output` has.

        Raises SurgeryRefusedError if it has no log, or if the log after `batch` cannot be kept in
        the backups of the checkpoint at `root`.
        """
        if isinstance(output, StorePath) != isinstance(root, StorePath):
            raise SurgeryRefusedError(
                f"{output} and {root} have to be both local or both in an object store, since the "
                "backup of the sink's log is kept in the checkpoint. Cut the log back yourself: "
                f"move the files of batches after {batch} out of {output}/{SINK_LOG}, and repeat "
                "without --sink."
            )
        directory = location_of(output) / SINK_LOG
        if isinstance(directory, StorePath):
            directory = directory.as_root()
        if not directory.is_dir():
            raise SurgeryRefusedError(f"{output} is not the output of a file sink: no {directory}.")
        return cls(output, CompactibleLog.scan(directory))

    def cut(self, root: CheckpointPath, batch: int) -> list[Change]:
        """Delete the entries of batches later than `batch`; with -1, all of them."""
        return delete_files(root, self.log.beyond(batch))

    def has_from(self, batch: int) -> bool:
        """Whether the log has an entry of this batch or a later one."""
        return self.log.newest >= batch

    def warnings(self, first: int, last: int) -> tuple[str, ...]:
        """The warnings about a cut before batch `first`; `last` is the checkpoint's newest batch.

        If the log has later batches than `last`, the checkpoint is an older copy or the output is
        another query's: the files do not tell which.
        """
        newest = self.log.newest
        if not self.has_from(first):
            has = f"no batch after {first - 1}" if first > 0 else "no batch"
            return (
                f"The log of {self.output} has {has}, so nothing is cut from it. Is it the output "
                "of this query? If not, the log of the right one still has the batches that are "
                "planned anew.",
            )
        cut = (
            f"The log of {self.output} is cut back too. The data files of {batches(first, newest)} "
            "stay on disk: Spark does not read files that are not in the log, other readers do."
        )
        if newest <= last:
            return (cut,)
        return (
            cut,
            f"The log of {self.output} has {batches(last + 1, newest)}, but the newest batch of "
            f"this checkpoint is {last}. If the checkpoint is an older copy or was rewound, this "
            f"is expected: the rows of {batches(first, newest)} are no longer part of the output, "
            "and their input is written again in newly planned batches. If it is the output of "
            "another query, do not cut it: its readers lose these rows, and no query writes them "
            "again.",
        )


def batches(first: int, last: int) -> str:
    """Consecutive batches, for a message."""
    return f"batch {first}" if first == last else f"batches {first} to {last}"
