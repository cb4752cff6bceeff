"""The state store checkpoint ids of a query, if the session uses them.

With `spark.sql.streaming.stateStore.checkpointFormatVersion` 2 every attempt of a batch writes its
state files under a new id, so that two attempts never mix. The commit log records the valid ids: a
batch starts from the ids in the commit before it.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors.exceptions.captured import convert_exception

from penstock.checkpoint import CommitMetadata
from penstock.spark.jvm.java_side import records_of
from penstock.spark.session.stream_session import STATE_FORMAT_VERSION, SparkStreamSession

Ids = tuple[tuple[str, ...], ...]
"""The ids of the state files, by partition."""


class StateIds:
    """Tracks the ids of the last committed batch. `jvm_map` has them for Spark's planner.

    Unless `enabled`, state files have no ids, and the map stays empty.
    """

    def __init__(self, session: SparkStreamSession) -> None:
        self._session = session
        self._jvm = session.jvm
        self._known: dict[int, Ids] = {}
        self.jvm_map = session.jvm.cls("scala.collection.mutable.HashMap")()
        self.enabled = int(session.find_conf(STATE_FORMAT_VERSION) or 1) >= 2

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        """Load the ids of a commit. Its state format overrides the session's setting.

        Not in a Spark line that uses only the setting.
        """
        if self._jvm.line.resolves_log_versions:
            self.enabled = commit.version == 2 or commit.state_unique_ids is not None
            self._session.set_conf(STATE_FORMAT_VERSION, "2" if self.enabled else "1")
        for operator_id, ids in (commit.state_unique_ids or {}).items():
            self._put(operator_id, ids)

    def take(self, execution: Any, batch_id: int) -> dict[int, Ids]:
        """The ids that the stateful operators of a finished batch wrote, for its commit.

        Raises Spark's own error, if this Spark has it, if an operator started from other state
        than that of the last commit.
        """
        taken: dict[int, list[tuple[str, ...]]] = {}
        for record in records_of(self._jvm.java.figures.takeStateIds(execution, self.jvm_map)):
            operator, partition, version, bases = map(int, record[:4])
            base = None if bases < 0 else tuple(record[4 : 4 + bases])
            if version != batch_id + 1:
                raise AssertionError(
                    f"Batch version {batch_id} should generate state store checkpoint version "
                    f"{batch_id + 1} but we see {version}"
                )
            self._check_base(operator, partition, version, base)
            taken.setdefault(operator, []).append(tuple(record[4 + max(bases, 0) :]))
        self._known.update((operator, tuple(ids)) for operator, ids in taken.items())
        return dict(sorted(self._known.items()))

    def _check_base(
        self, operator: int, partition: int, version: int, base: tuple[str, ...] | None
    ) -> None:
        known = self._known.get(operator)
        if known is None or not self._jvm.line.has("StateStoreErrors"):
            return
        expected = known[partition]
        if base != expected:
            error = self._jvm.module("StateStoreErrors").stateStoreBaseCheckpointIdMismatch(
                version,
                partition,
                operator,
                f"[{', '.join(expected)}]",
                "None" if base is None else f"[{', '.join(base)}]",
            )
            raise convert_exception(error)

    def _put(self, operator_id: int, ids: Ids) -> None:
        self._known[operator_id] = ids
        string = self._jvm.cls("java.lang.String")
        partitions = self._jvm.gateway.new_array(string, len(ids), 0)
        for index, texts in enumerate(ids):
            partitions[index] = self._jvm.array(string, texts)
        self.jvm_map.put(operator_id, partitions)
