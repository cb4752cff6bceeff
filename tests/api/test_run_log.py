"""Log lines under `penstock run`, where the script configures no logging."""

from __future__ import annotations

import logging
import re

import pytest

from penstock.api.run_log import SparkLikeFormatter, logging_like_spark
from penstock.engine.log_context import LogContext, enter_batch, enter_query, leave_query

TIME = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d"


def line_of(level: int, text: str) -> str:
    logger = logging.getLogger("penstock.engine.of_the_test")
    return SparkLikeFormatter().format(logger.makeRecord(logger.name, level, "", 0, text, (), None))


def test_a_line_outside_a_query_has_time_level_and_logger() -> None:
    line = line_of(logging.WARNING, "text")
    assert re.fullmatch(rf"{TIME} WARN penstock\.engine\.of_the_test: text", line)
    assert " ERROR " in line_of(logging.ERROR, "text")
    assert " FATAL " in line_of(logging.CRITICAL, "text")


@pytest.mark.parametrize(("name", "shown"), [("counts", "counts"), (None, "the-id")])
def test_a_line_of_a_query_has_its_name_and_batch(name: str | None, shown: str) -> None:
    enter_query(LogContext("the-id", "the-run", name))
    try:
        assert line_of(logging.WARNING, "text").endswith(f"of_the_test: [{shown}] text")
        enter_batch(3)
        assert line_of(logging.WARNING, "text").endswith(f"of_the_test: [{shown}, batch 3] text")
    finally:
        leave_query()


def test_only_records_of_penstock_without_a_handler_are_reformatted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest has its own
    before = logging.lastResort
    with logging_like_spark():
        logging.getLogger("penstock.x").warning("ours")
        logging.getLogger("penstock.x").info("not shown")
        logging.getLogger("of.the.script").warning("theirs")
        logging.getLogger().addHandler(logging.NullHandler())
        logging.getLogger("penstock.x").warning("handled")
    assert logging.lastResort is before
    ours, theirs = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"{TIME} WARN penstock\.x: ours", ours)
    assert theirs == "theirs"
