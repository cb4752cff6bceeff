"""A trigger with the times of a cron expression."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from penstock.engine.data_stream import DataStream
from penstock.engine.triggers import (
    BatchRunner,
    Schedule,
    Surroundings,
    Trigger,
    TriggerExecutor,
)
from penstock.errors import EnvironmentProblemError

_logger = logging.getLogger(__name__)


class Cron(Trigger):
    """Runs a batch at each time of a cron expression, such as `*/5 * * * *`.

    The expression has the five fields of cron, or six with the seconds first. `tz` is the name of
    a time zone, or a tzinfo, in which it is evaluated, daylight saving time included. The first
    batch runs at the first of these times after the start, also if an earlier run has planned it,
    or at once if `restart()` starts the query again after a batch has failed. A batch that takes
    longer than until the next time delays it; if several times have passed, one batch runs for all
    of them.

    Needs the package cronsim: `pip install 'penstock[cron]'`. Raises ValueError for an expression
    or a time zone that is not valid, and EnvironmentProblemError without the package.
    """

    def __init__(self, expression: str, tz: str | tzinfo = "UTC") -> None:
        self._cronsim = _cron_package()
        self._expression = expression
        self._tz = _time_zone(tz)
        minute_and_hour = expression.split()[-5:-3]
        self._has_fixed_times = not any(field.startswith("*") for field in minute_and_hour)
        self.next_time(0)

    def __repr__(self) -> str:
        return f"Cron({self._expression!r}, tz={str(self._tz)!r})"

    def next_time(self, after_ms: int) -> int:
        """The first time of the expression after a time, in milliseconds since the epoch."""
        after = datetime.fromtimestamp(after_ms / 1000, timezone.utc)
        try:
            found = next(time for time in self._times(after.astimezone(self._tz)) if time > after)
        except self._cronsim.CronSimError as exc:
            raise ValueError(
                f"{self._expression!r} is not a cron expression: {exc}. It has five fields, minute "
                "hour day month weekday, such as '*/5 * * * *'"
            ) from exc
        except StopIteration:
            raise ValueError(
                f"the cron expression {self._expression!r} has no time in the next 50 years"
            ) from None
        return round(found.timestamp() * 1000)

    def _times(self, after: datetime) -> Iterator[datetime]:
        """Times of the expression in its zone; the first of them may not be after `after`.

        Fixed times are those of the clock on the wall; `*` in the minutes or hours is real time, so
        that there is a batch in each of two equal hours. This is what Debian's cron does.
        """
        if not self._has_fixed_times:
            yield from self._cronsim.CronSim(self._expression, after)
        else:
            for local in self._cronsim.CronSim(self._expression, after.replace(tzinfo=None)):
                yield _in_zone(local, self._tz)

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule.of(sources, CronExecutor(self.next_time, surroundings))


class CronExecutor(TriggerExecutor):
    """Runs a batch at each time that `next_time` returns for the time of the batch before."""

    def __init__(self, next_time: Callable[[int], int], surroundings: Surroundings) -> None:
        self._next_time = next_time
        self._surroundings = surroundings
        self._clock = surroundings.clock

    def execute(self, batch_runner: BatchRunner) -> None:
        if not self._surroundings.is_retry:
            self._wait_for(self._next_time(self._surroundings.started_ms))
        began = self._clock.time_millis()
        while batch_runner():
            due = self._next_time(began)
            self._warn_if_late(self._clock.time_millis() - due)
            self._wait_for(due)
            began = self._clock.time_millis()

    def _wait_for(self, due: int) -> None:
        # A clock that is set back ends a wait before its time.
        while self._clock.time_millis() < due and self._surroundings.wait_until(due):
            pass

    def _warn_if_late(self, late_ms: int) -> None:
        if late_ms > 0:
            _logger.warning(
                "Current batch is falling behind. It ended %s milliseconds after the next time of "
                "its trigger; the next batch starts at once.",
                late_ms,
            )


def _cron_package() -> Any:
    try:
        return import_module("cronsim")
    except ModuleNotFoundError as exc:
        raise EnvironmentProblemError(
            "Cron needs the package cronsim, which is not installed. Install the extra: pip "
            "install 'penstock[cron]'"
        ) from exc


def _in_zone(local: datetime, tz: tzinfo) -> datetime:
    """A local time in UTC: the first of two, and the end of the gap for one that does not exist."""
    while (time := local.replace(tzinfo=tz)) != _there_and_back(time):
        local += timedelta(minutes=1)
    return time.astimezone(timezone.utc)


def _there_and_back(time: datetime) -> datetime:
    return time.astimezone(timezone.utc).astimezone(time.tzinfo)


def _time_zone(tz: str | tzinfo) -> tzinfo:
    if isinstance(tz, tzinfo):
        return tz
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, TypeError, OSError) as exc:
        raise ValueError(f"{tz!r} is not the name of a time zone, such as 'Europe/Paris'") from exc
