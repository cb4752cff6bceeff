"""What comes between two runs of a query that is restarted: a lost checkpoint, long silence."""

from __future__ import annotations

import pytest

from penstock import StreamingQueryException
from penstock.api.restart import RestartPolicy
from penstock.checkpoint import CheckpointDirectory
from penstock.engine.clock import Clock
from penstock.engine.settings import Settings
from penstock.engine.triggers import ProcessingTimeTrigger
from penstock.errors import CheckpointError
from tests.api.restarting import Restarting
from tests.engine.world import PATIENCE, MemoryFiles
from tests.streams import HeldClock, eventually


def restarted_once(clock: Clock | None = None) -> Restarting:
    """A query whose first run fails."""
    restarting = Restarting(RestartPolicy(), clock)
    restarting.errors = [RuntimeError("no network")]
    return restarting


# What is counted.


def test_a_batch_ends_the_row_however_long_ago_it_was() -> None:
    settings = Settings(polling_delay_ms=1, progress_retention=2, no_data_progress_interval_ms=0)
    restarting = Restarting(
        RestartPolicy(max_restarts=1), trigger=ProcessingTimeTrigger(), settings=settings
    )
    restarting.errors = [RuntimeError("one")]
    query = restarting.start()
    query.processAllAvailable()

    def is_quiet() -> bool:
        progress = restarting.runs[-1].reporter.recent_progress
        return bool(progress) and all("addBatch" not in done.duration_ms for done in progress)

    eventually(is_quiet, "a row of records without a batch")
    restarting.errors = [RuntimeError("two")]
    restarting.stream.rows.append(5)
    eventually(lambda: 5 in restarting.world.plan.output or not query.isActive, "another batch")
    assert query.exception() is None
    assert query.restarts == 2
    query.stop(timeout=PATIENCE)


# The checkpoint.


def test_a_checkpoint_with_another_id_is_not_gone_on_from() -> None:
    clock = HeldClock()
    restarting = restarted_once(clock)
    query = restarting.start()
    query_id = query.id
    assert clock.waiting.wait(PATIENCE)
    restarting.world.checkpoint = CheckpointDirectory(MemoryFiles())
    clock.over.set()
    with pytest.raises(StreamingQueryException, match=r"memory:/checkpoint.*emptied") as raised:
        query.awaitTermination(int(PATIENCE))
    assert isinstance(query.last_error, CheckpointError)
    assert query_id in str(raised.value)
    assert restarting.runs[1].identity.id in str(raised.value)
    assert query.id == query_id
    assert not query.isActive
    assert query.restarts == 0
    assert restarting.world.plan.output == {}
    eventually(lambda: restarting.ends == [query], "the end to be told")
