"""The state store checkpoint ids of a query, if the session uses them.

With `spark.sql.streaming.stateStore.checkpointFormatVersion` 2 every attempt of a batch writes its
state files under a new id, so that two attempts never mix. The commit log records the valid ids: a
batch starts from the ids in the commit before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors.exceptions.captured import convert_exception

from penstock.checkpoint import CommitMetadata
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

    def take(self, writers: Sequence[Any], batch_id: int) -> dict[int, Ids]:
        """The ids that the stateful operators of a finished batch wrote, for its commit.

        Raises Spark's own error, if this Spark has it, if an operator started from other state
        than that of the last commit.
        """
        for writer in writers:
            operator_id = int(writer.stateInfo().get().operatorId())
            infos = list(writer.getStateStoreCheckpointInfo())
            self._check_base(operator_id, infos)
            for info in infos:
                version = info.batchVersion()
                if version != batch_id + 1:
                    raise AssertionError(
                        f"Batch version {batch_id} should generate state store checkpoint "
                        f"version {batch_id + 1} but we see {version}"
                    )
            self._put(operator_id, tuple(tuple(info.stateStoreCkptId().get()) for info in infos))
        return dict(sorted(self._known.items()))

    def _check_base(self, operator_id: int, infos: Sequence[Any]) -> None:
        known = self._known.get(operator_id)
        if known is None or not self._jvm.line.has("StateStoreErrors"):
            return
        for info in infos:
            expected = known[info.partitionId()]
            base = self._jvm.from_option(info.baseStateStoreCkptId())
            actual = None if base is None else tuple(base)
            if actual != expected:
                raise self._mismatch(operator_id, info, expected, actual)

    def _mismatch(
        self, operator_id: int, info: Any, expected: Sequence[str], actual: Sequence[str] | None
    ) -> Exception:
        error: JavaObject = self._jvm.module("StateStoreErrors").stateStoreBaseCheckpointIdMismatch(
            info.batchVersion(),
            info.partitionId(),
            operator_id,
            f"[{', '.join(expected)}]",
            "None" if actual is None else f"[{', '.join(actual)}]",
        )
        return convert_exception(error)

    def _put(self, operator_id: int, ids: Ids) -> None:
        self._known[operator_id] = ids
        string = self._jvm.cls("java.lang.String")
        partitions = self._jvm.gateway.new_array(string, len(ids), 0)
        for index, texts in enumerate(ids):
            partitions[index] = self._jvm.array(string, texts)
        self.jvm_map.put(operator_id, partitions)
