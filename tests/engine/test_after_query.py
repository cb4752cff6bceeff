"""The trigger that follows another query."""

from __future__ import annotations

import threading

import pytest

from penstock.engine.after_query import AfterQuery
from penstock.engine.following import Follower, Followers
from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import FollowedQueryFailedError
from tests.engine.world import PATIENCE, World
from tests.memory_world.sources import Abilities


class Leader:
    """A query that is followed."""

    def __init__(self) -> None:
        self.followers = Followers()

    def __repr__(self) -> str:
        return "Leader"


class Recorder(Follower):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_committed(self) -> None:
        self.seen.append("committed")

    def on_ended(self, failure: BaseException | None) -> None:
        self.seen.append(f"ended {failure}")


class Following:
    """A query that follows a leader, and counts its progress records."""

    def __init__(self, world: World, leader: Leader) -> None:
        self.world = world
        self.execution: StreamExecution = world.query(AfterQuery(leader))
        self._changed = threading.Condition()
        self._triggers = 0
        self.execution.reporter.observe(self._on_progress)

    def _on_progress(self, progress: StreamingQueryProgress) -> None:
        with self._changed:
            self._triggers += 1
            self._changed.notify_all()

    def wait_for_batch(self, batch_id: int) -> None:
        with self._changed:
            arrived = self._changed.wait_for(lambda: batch_id in self.world.plan.output, PATIENCE)
        assert arrived


# Followers.


def test_followers_are_told_of_batches_and_of_the_end() -> None:
    followers, follower, removed = Followers(), Recorder(), Recorder()
    followers.add(follower)
    followers.add(removed)
    followers.remove(removed)
    followers.tell_committed()
    followers.tell_ended(None)
    assert follower.seen == ["committed", "ended None"]
    assert removed.seen == []


def test_a_follower_of_an_ended_query_is_told_at_once() -> None:
    followers, follower = Followers(), Recorder()
    followers.tell_ended(ValueError("broken"))
    followers.add(follower)
    assert follower.seen == ["ended broken"]


# The trigger.


def test_the_first_batch_is_due_at_once_and_the_others_after_a_commit() -> None:
    world, leader = World(), Leader()
    source = world.add_source("a", [1])
    query = Following(world, leader)
    query.execution.start()
    query.wait_for_batch(0)
    source.rows.append(2)
    leader.followers.tell_committed()
    query.wait_for_batch(1)
    assert world.plan.output == {0: [1], 1: [2]}
    source.rows.append(3)
    query.execution.stop()
    assert world.plan.output == {0: [1], 1: [2]}
    assert query.execution.failure is None


def test_all_that_is_available_is_processed_while_the_other_query_is_idle() -> None:
    world, leader = World(), Leader()
    world.add_stream("a", range(5), Abilities(admission_control=True, limit=ReadMaxRows(2)))
    query = Following(world, leader)
    query.execution.start()
    query.wait_for_batch(0)
    waiting = threading.Thread(target=query.execution.process_all_available, daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert world.plan.output == {0: [0, 1], 1: [2, 3], 2: [4]}
    query.execution.stop()


def test_commits_during_a_batch_are_one_batch_after_it() -> None:
    world, leader = World(), Leader()
    source = world.add_source("a", [1])
    gate = world.gate()
    world.plan.on_run = gate
    query = Following(world, leader)
    query.execution.start()
    gate.wait_entered()
    source.rows += [2, 3]
    leader.followers.tell_committed()
    leader.followers.tell_committed()
    gate.open()
    query.wait_for_batch(1)
    leader.followers.tell_ended(None)
    assert query.execution.await_termination(PATIENCE)
    assert world.plan.output == {0: [1], 1: [2, 3]}


def test_when_the_other_query_has_ended_the_rest_is_processed() -> None:
    world, leader = World(), Leader()
    world.add_stream("a", range(5), Abilities(admission_control=True, limit=ReadMaxRows(2)))
    leader.followers.tell_ended(None)
    execution = world.query(AfterQuery(leader))
    execution.start()
    assert execution.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1], 1: [2, 3], 2: [4]}


def test_when_the_other_query_has_failed_the_rest_is_processed_and_this_one_fails() -> None:
    world, leader = World(), Leader()
    source = world.add_source("a", [1])
    query = Following(world, leader)
    query.execution.start()
    query.wait_for_batch(0)
    source.rows.append(2)
    leader.followers.tell_ended(KeyError("id"))
    with pytest.raises(Exception, match="runs after each batch of Leader, which has failed: Key"):
        query.execution.await_termination(PATIENCE)
    assert query.execution.failure is not None
    cause = query.execution.failure.__cause__
    assert isinstance(cause, FollowedQueryFailedError)
    assert isinstance(cause.__cause__, KeyError)
    assert world.plan.output == {0: [1], 1: [2]}


def test_a_query_that_is_stopped_does_not_fail_because_of_the_other() -> None:
    world, leader = World(), Leader()
    world.add_source("a", [1])
    query = Following(world, leader)
    query.execution.start()
    query.wait_for_batch(0)
    query.execution.stop_at_boundary()
    leader.followers.tell_ended(KeyError("id"))
    assert query.execution.await_termination(PATIENCE)


def test_a_run_that_has_ended_is_not_told_any_more() -> None:
    world, leader = World(), Leader()
    world.add_source("a", [1])
    query = Following(world, leader)
    query.execution.start()
    query.execution.stop()
    assert leader.followers._now() == []


@pytest.mark.parametrize("other", [None, "a query", World()])
def test_only_a_query_of_penstock_can_be_followed(other: object) -> None:
    with pytest.raises(TypeError, match=r"AfterQuery needs a query that Penstock runs"):
        AfterQuery(other)  # type: ignore[arg-type]  # what is tested


def test_the_trigger_names_the_query() -> None:
    assert repr(AfterQuery(Leader())) == "AfterQuery(Leader)"
