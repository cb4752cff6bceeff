"""Every log record made on a query's thread names its query and batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from penstock.engine.log_context import (
    NONE,
    LogContext,
    enter_batch,
    enter_query,
    install_record_factory,
    leave_query,
)
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import StreamFailedError
from penstock.redaction import REDACTED, Redactor
from tests.engine.world import PATIENCE, World
from tests.memory_world.sources import Abilities

_logger = logging.getLogger("some.application")


@pytest.fixture(autouse=True)
def _default_logging() -> Iterator[None]:
    """Restore the record factory."""
    before = logging.getLogRecordFactory()
    leave_query()
    yield
    leave_query()
    logging.setLogRecordFactory(before)


def marks(record: logging.LogRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in ("query_id", "run_id", "query_name", "batch_id"))


def last(caplog: pytest.LogCaptureFixture, message: str = "said") -> logging.LogRecord:
    _logger.warning(message)
    return caplog.records[-1]


def test_a_record_outside_of_queries(caplog: pytest.LogCaptureFixture) -> None:
    install_record_factory()
    assert marks(last(caplog)) == (NONE, NONE, NONE, NONE)


def test_a_record_of_a_query(caplog: pytest.LogCaptureFixture) -> None:
    enter_query(LogContext("id", "run", None))
    assert marks(last(caplog)) == ("id", "run", NONE, NONE)
    enter_batch(0)
    assert marks(last(caplog)) == ("id", "run", NONE, 0)
    leave_query()
    enter_batch(1)
    assert marks(last(caplog)) == (NONE, NONE, NONE, NONE)


def test_records_of_other_threads_have_no_query(caplog: pytest.LogCaptureFixture) -> None:
    enter_query(LogContext("id", "run", "name"))
    thread = threading.Thread(target=_logger.warning, args=("elsewhere",))
    thread.start()
    thread.join()
    assert marks(caplog.records[-1]) == (NONE, NONE, NONE, NONE)
    assert marks(last(caplog)) == ("id", "run", "name", NONE)


def test_an_existing_record_factory_is_still_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = logging.getLogRecordFactory()

    def own(*args: object, **kwargs: object) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.own = True
        return record

    logging.setLogRecordFactory(own)
    install_record_factory()
    installed = logging.getLogRecordFactory()
    install_record_factory()
    assert logging.getLogRecordFactory() is installed
    record = last(caplog)
    assert getattr(record, "own", False)
    assert marks(record) == (NONE, NONE, NONE, NONE)


def test_records_in_a_batch_have_its_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    world.add_stream("a", range(3), Abilities(available_now=True, admission_control=True))
    world.plan.on_run = lambda: _logger.warning("in the sink")
    query = world.query(AvailableNowTrigger(), name="numbers")
    query.start()
    query.await_termination(PATIENCE)
    [said] = [record for record in caplog.records if record.message == "in the sink"]
    assert marks(said) == (query.identity.id, query.identity.run_id, "numbers", 0)
    own = [record for record in caplog.records if record.name.startswith("penstock.")]
    committed = [record for record in own if record.message.startswith("Committed offsets")]
    assert [marks(record)[3] for record in committed] == [0]
    on_thread = [record for record in own if record.threadName != threading.main_thread().name]
    assert {marks(record)[0] for record in on_thread} == {query.identity.id}


_ours = logging.getLogger("penstock.some.module")


def test_our_records_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    install_record_factory()
    _ours.warning("cannot reach %s", "db://me:hunter2@host")
    _ours.warning("%s of %s", 1, "token")
    assert caplog.messages == [f"cannot reach db://{REDACTED}@host", "1 of token"]
    assert caplog.records[-1].args == (1, "token")


def test_our_records_have_no_secrets_of_the_query(caplog: pytest.LogCaptureFixture) -> None:
    enter_query(LogContext("id", "run", None, Redactor(secrets=["hunter2"])))
    _ours.warning("got hunter2")
    leave_query()
    _ours.warning("got hunter2")
    assert caplog.messages == [f"got {REDACTED}", "got hunter2"]


def test_tracebacks_in_our_records_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    install_record_factory()
    for message in ("password=hunter2", "plain"):
        try:
            raise ValueError(message)
        except ValueError:
            _ours.warning("failed", exc_info=True)
    hidden, plain = caplog.records
    assert "hunter2" not in caplog.text
    assert f"ValueError: password={REDACTED}" in caplog.text
    assert hidden.exc_info is None
    assert plain.exc_info is not None


def test_records_of_other_loggers_are_not_changed(caplog: pytest.LogCaptureFixture) -> None:
    install_record_factory()
    _logger.warning("password=hunter2")
    logging.getLogger("penstocking").warning("password=hunter2")
    assert caplog.messages == ["password=hunter2"] * 2


def test_a_failing_query_logs_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("refused: password=hunter2")

    world = World()
    world.add_stream("a", range(3), Abilities(available_now=True, admission_control=True))
    world.plan.on_run = fail
    query = world.query(AvailableNowTrigger())
    query.start()
    with pytest.raises(StreamFailedError):
        query.await_termination(PATIENCE)
    assert f"refused: password={REDACTED}" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_record_that_cannot_be_formatted_does_not_fail_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AttributeError("response")

    monkeypatch.setattr(logging, "raiseExceptions", False)  # of the handlers
    install_record_factory()
    logger = logging.getLogger("penstock.engine")
    logger.propagate = False
    try:
        logger.warning("failed: %s", Unprintable())
    finally:
        logger.propagate = True
