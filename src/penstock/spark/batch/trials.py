"""Runs parts of a batch without the sink, to see whether they fail."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

from penstock.checkpoint import CheckpointDirectory
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.engine.seam import BatchRequest, Trials
from penstock.spark.plan.planning import BatchPlanner
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.batch_sinks import OrdinaryFrames

_TRIAL = f"{OWN_DIRECTORY}/trial"

PlannerFactory = Callable[[str, str], BatchPlanner]
"""Creates a planner of the query without its sink, for a state directory and a run id."""


class SparkTrials(Trials):
    """Trials with a state directory of their own, which must have the version before the batch.

    Every trial has a run id of its own, so that Spark loads that version for each of them and does
    not use what another trial has written.
    """

    def __init__(
        self,
        session: SparkStreamSession,
        state_path: str,
        make_planner: PlannerFactory,
        set_data: Callable[[BatchRequest], tuple[int, ...]],
    ) -> None:
        self._session = session
        self._state_path = state_path
        self._make_planner = make_planner
        self._set_data = set_data

    def run(self, request: BatchRequest) -> None:
        session, run_id = self._session, str(uuid.uuid4())
        shape = self._set_data(request)
        try:
            execution = self._make_planner(self._state_path, run_id).execution(request, shape)
            # Every partition is computed, and with it all columns.
            OrdinaryFrames(session.spark, execution).of(execution).count()
        finally:
            session.state_coordinator().deactivateInstances(session.jvm.uuid(run_id))


@contextlib.contextmanager
def trial_state(session: SparkStreamSession, checkpoint: CheckpointDirectory) -> Iterator[str]:
    """A copy of the state of a query, which is deleted at the end; yields its location."""
    conf = session.hadoop_conf()
    parent = session.jvm.cls("org.apache.hadoop.fs.Path")(checkpoint.files.path(_TRIAL))
    # Spark looks for a directory of this name.
    copy = f"{parent.toString()}/state"
    try:
        if not checkpoint.files.is_empty("state"):
            session.jvm.java.start.copy(checkpoint.state_path, copy, conf)
        yield copy
    finally:
        parent.getFileSystem(conf).delete(parent, True)
