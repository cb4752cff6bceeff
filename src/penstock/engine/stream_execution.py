"""A run of a query: start, stop, and the methods that wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.checkpoint import CheckpointDirectory
from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.data_stream import DataStream
from penstock.engine.ending import Ending
from penstock.engine.error_text import error_text, or_else
from penstock.engine.events import QueryStartedEvent
from penstock.engine.failure import is_of_stop, stream_failure
from penstock.engine.faults import NO_FAULTS, FaultInjector, FaultPoint
from penstock.engine.hooks import Hooks
from penstock.engine.log_context import LogContext, enter_query, install_record_factory, leave_query
from penstock.engine.micro_batch_execution import MicroBatchExecution
from penstock.engine.pacing import pacing_of
from penstock.engine.polling import Polling
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.quarantine import Quarantine, QuarantineRules
from penstock.engine.query_thread import QueryThread
from penstock.engine.run_observer import RunObserver, RunObservers
from penstock.engine.run_state import RunState, State
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.settings import KEYS
from penstock.engine.sink_delivery import SinkDelivery
from penstock.engine.triggers import Schedule, Surroundings, Trigger, TriggerExecutor
from penstock.engine.watermark import DEFAULT_POLICY, WatermarkTracker
from penstock.errors import (
    ExecutionError,
    StoppedError,
    StreamFailedError,
    UnknownTriggerError,
)
from penstock.redaction import DEFAULT_REDACTOR, Redactor

_logger = logging.getLogger(__name__)


class StreamExecution:
    """One run of a query on its own thread. Every public method may be called from any thread."""

    def __init__(
        self,
        *,
        identity: QueryIdentity,
        session: StreamSession,
        checkpoint: CheckpointDirectory,
        plan_factory: Callable[[QueryIdentity], QueryPlan],
        trigger: Trigger,
        clock: Clock | None = None,
        faults: FaultInjector = NO_FAULTS,
        hooks: Hooks | None = None,
        delete_checkpoint_on_stop: bool = False,
        pace_ms: int | None = None,
        options: Mapping[str, str] | None = None,
        redactor: Redactor = DEFAULT_REDACTOR,
        on_started: Callable[[], None] = lambda: None,
        observers: Sequence[RunObserver] = (),
        quarantine: QuarantineRules | None = None,
    ) -> None:
        """Creating it has no side effect; `start` begins the run.

        `plan_factory` is called once, on the query's thread. `pace_ms` is the wanted duration of a
        batch; None to leave the read limits alone. `options` are those of the query's
        writer, for observers; `redactor` hides the query's secrets. `start` calls `on_started`
        when the thread runs.
        """
        if not isinstance(trigger, Trigger):
            raise UnknownTriggerError(f"Unknown type of trigger: {trigger}")
        self.identity = identity
        self.options = options or {}
        self.redactor = redactor
        self._session = session
        self._checkpoint = checkpoint
        self._plan_factory = plan_factory
        self._trigger = trigger
        self._clock = clock or SystemClock()
        self._faults = faults
        self._hooks = hooks or Hooks()
        self._delete_checkpoint_on_stop = delete_checkpoint_on_stop
        self._pace_ms = pace_ms
        self._on_started = on_started
        self._quarantine = quarantine
        self._observers = RunObservers(observers)
        self.life = RunState()
        self.reporter = ProgressReporter(identity, session, self._clock)
        self._plan: QueryPlan | None = None
        self._runtime: QueryRuntime | None = None
        self._engine: MicroBatchExecution | None = None
        self._executor: TriggerExecutor | None = None
        self._started_ms = 0
        self._is_retry = False
        self._progress_lock = threading.Condition()
        self._thread = QueryThread(session, identity, self._run_stream)

    # State.

    @property
    def is_active(self) -> bool:
        return self.life.is_active

    @property
    def state(self) -> State:
        return self.life.state

    @property
    def failure(self) -> StreamFailedError | None:
        """The error if the query has failed."""
        return self.life.failure

    @property
    def session(self) -> StreamSession:
        return self._session

    @property
    def checkpoint(self) -> CheckpointDirectory:
        return self._checkpoint

    @property
    def runtime(self) -> QueryRuntime | None:
        """The objects of the run; None until the query is initialized."""
        return self._runtime

    @property
    def logical_plan(self) -> QueryPlan:
        """The plan with its sources. The first access must be on the query's thread."""
        if self._plan is None:
            self._thread.require_current()
            self._plan = self._plan_factory(self.identity)
        return self._plan

    def explain(self, *, extended: bool = False) -> str:
        context = self._engine.context if self._engine else None
        execution = context and (context.execution or context.last_execution)
        if not execution:
            return "No physical plan. Waiting for data."
        return execution.explain(extended=extended)

    # Starting, stopping, waiting.

    def follow(self, failed: StreamExecution) -> None:
        """Called before `start` of a run that follows a failed one.

        Its first batch is due at once if a trigger has failed, in that run or in one before it that
        has not been retried.
        """
        self._is_retry = failed._is_retry or failed.reporter.trigger_started_ms >= 0

    def start(self) -> None:
        """Start the thread; returns when the listeners have received `QueryStartedEvent`."""
        install_record_factory()
        self._started_ms = self._clock.time_millis()
        _logger.info(
            "Starting %s. Use %s to store the query checkpoint.",
            self.identity,
            self._checkpoint.root,
        )
        self._observers.on_starting(self)
        self.reporter.observe(partial(self._observers.on_progress, self))
        try:
            self._thread.start(self.life.started)
        except BaseException:
            self._observers.on_ended(self)
            raise
        self._on_started()

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query and wait until its thread has ended.

        By default the running batch is cancelled and will run again at the next start. With
        `graceful` the running batch is finished and committed first. The wait takes at most
        `timeout` seconds; if that is None, the current `spark.sql.streaming.stopTimeout`, where 0
        means no limit. Raises QueryStopTimeoutError after that. Stopping an ended query does
        nothing. On the query's own thread it does not wait; if a batch runs, for instance in
        `foreachBatch`, it raises StoppedError unless `graceful`, so that the batch is not committed
        and runs again at the next start.
        """
        self.stop_at_boundary()
        if not graceful:
            self.life.terminate()
            if self._thread.is_current and self._engine and self._engine.context.is_running:
                raise StoppedError(
                    f"Query {self.identity} was stopped by its own batch, which is not committed. "
                    "To commit it, call stop(graceful=True)."
                )
        if self._thread.is_alive and not self._thread.is_current:
            reason = f"Query {self.identity} was stopped"
            if not graceful:
                self._cancel_jobs(reason)
            bound_from = KEYS["stop_timeout_ms"] if timeout is None else "stop(timeout=...)"
            self._thread.join_stopped(
                self.stop_bound(timeout), bound_from, lambda: self.reporter.status.message
            )
            # The thread may have submitted another job in the meantime.
            self._cancel_jobs(reason)
        _logger.info("Query %s was stopped", self.identity)

    def _cancel_jobs(self, reason: str) -> None:
        """Cancel the jobs; an error is logged: without the JVM there are none to cancel."""
        try:
            self._session.cancel_jobs(self.identity, reason)
        except Exception:
            _logger.warning("The jobs of %s were not cancelled", self.identity, exc_info=True)

    def stop_bound(self, timeout: float | None) -> float | None:
        """The time limit of a stop in seconds: `timeout`, else `stopTimeout`; None: no limit."""
        if timeout is not None:
            return timeout
        return max(self._session.settings_now().stop_timeout_ms, 0) / 1000 or None

    def stop_at_boundary(self) -> None:
        """Stop after the running batch, if there is one, is committed. Returns at once."""
        self.life.stop_at_boundary()
        if self._executor is not None:
            self._executor.wake()

    def step(self, timeout: float | None = None) -> bool:
        """Run one trigger and wait until it has finished; for a query with a ManualTrigger.

        Returns False if the query has ended, or after `timeout` seconds. Raises `failure` if the
        query has failed.
        """
        self._thread.refuse_current()
        gate = self._trigger.gate
        if gate is None:
            raise ExecutionError(f"step() requires a ManualTrigger, not {self._trigger}")
        stepped = gate.step(timeout)
        if not stepped and gate.is_closed:
            self.life.terminated.wait(timeout)
        self.life.raise_failure()
        return stepped

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended; returns whether it has. Raises `failure` if it failed."""
        self._thread.refuse_current()
        self.life.terminated.wait(timeout)
        self.life.raise_failure()
        return not self.is_active

    def process_all_available(self) -> None:
        """Wait until all data that is available now is processed. For tests: it may take long."""
        self._thread.refuse_current()
        self.life.raise_failure()
        with self._progress_lock:
            if self._runtime is not None:
                self._runtime.no_new_data = False
        self.life.nudge.set()
        while self.is_active:
            if self._executor is not None:
                self._executor.nudge()  # without the lock: it may wait for a batch, which takes it
            with self._progress_lock:
                is_processed = self._progress_lock.wait_for(self._is_processed, 10)
            self.life.raise_failure()
            if is_processed:
                return
        self.life.terminated.wait()
        self.life.raise_failure()

    def _is_processed(self) -> bool:
        return self._runtime is not None and self._runtime.no_new_data

    # The query's thread.

    def _run_stream(self) -> None:
        error_class: str | None = None
        identity = self.identity
        enter_query(LogContext(identity.id, identity.run_id, identity.name, self.redactor))
        try:
            self._session.enter(self.identity, self.identity.describe("init"))
            self._session.post_event(
                QueryStartedEvent(
                    self.identity.id,
                    self.identity.run_id,
                    self.identity.name,
                    format_timestamp(self._clock.time_millis()),
                )
            )
            self.life.started.set()
            self._initialize_and_run()
            self.reporter.update_status("Stopped")
        except BaseException as exc:
            if is_of_stop(self.life.terminating, self._session, exc):
                self.reporter.update_status("Stopped")
            else:
                error_class = or_else(partial(self._session.error_class, exc), None)
                self._record_failure(or_else(partial(self._session.translated, exc), exc))
                _logger.error("Query %s terminated with error", self.identity, exc_info=exc)
        finally:
            self.life.started.set()
            self.life.initialized.set()
            try:
                self._shut_down(error_class)
            finally:
                leave_query()

    def _initialize_and_run(self) -> None:
        self.reporter.update_status("Initializing sources")
        self._faults.reach(FaultPoint.BEFORE_SOURCES, -1)
        plan = self.logical_plan
        schedule = self._trigger.schedule(plan.sources, self._surroundings())
        self._executor = schedule.executor
        self._runtime = self._create_runtime(plan, schedule)
        self._engine = MicroBatchExecution(
            self._runtime,
            schedule,
            is_active=lambda: self.life.goes_on,
            finish=self.life.terminate,
            after_batch=self.life.close_batch,
            polling=Polling(
                self._session.settings.polling_delay_ms, self.life.nudge, schedule.when_idle
            ),
        )
        for unique in self._runtime.unique_sources:
            unique.stream.on_new_data(self.life.nudge.set)
        self._faults.reach(FaultPoint.AFTER_SOURCES, -1)
        if self.life.stops_at_boundary:
            schedule.executor.wake()
        if self.life.activate():
            _logger.info("Finish initializing with logical plan:\n%s", plan)
            self.life.initialized.set()
            self._engine.run_activated_stream()

    def _create_runtime(self, plan: QueryPlan, schedule: Schedule) -> QueryRuntime:
        runtime = QueryRuntime(
            identity=self.identity,
            session=self._session,
            checkpoint=self._checkpoint,
            clock=self._clock,
            reporter=self.reporter,
            plan=plan,
            unique_sources=schedule.sources,
            watermark=WatermarkTracker(DEFAULT_POLICY, plan.watermark_operators),
            faults=self._faults,
            hooks=self._hooks,
            progress_lock=self._progress_lock,
            admission=schedule.admission,
            pacing=None if self._pace_ms is None else pacing_of(schedule, self._pace_ms),
            terminating=self.life.terminating,
        )
        runtime.quarantine = Quarantine(runtime, self._quarantine, self.redactor.text)
        if plan.named_sinks:
            runtime.sinks = SinkDelivery(runtime, plan.named_sinks)
        return runtime

    def _surroundings(self) -> Surroundings:
        wraps = self._session.settings.available_now_wrapper
        life = self.life
        return Surroundings(
            self._clock,
            life.stopping,
            wraps,
            lambda: life.batches,
            self._started_ms,
            self._is_retry,
        )

    def _record_failure(self, exc: BaseException) -> None:
        context = self._engine.context if self._engine else None
        plan = self._plan if self.state is not State.INITIALIZING else None
        reason = or_else(partial(self._session.error_message, exc), error_text(exc))
        self.life.failure = stream_failure(
            self.identity, self.state.value, context, plan, exc, reason, self._checkpoint.root
        )
        self.reporter.update_status(f"Terminated with exception: {reason}")

    def _shut_down(self, error_class: str | None) -> None:
        """Run the steps of the end, then wake every thread that waits for the query."""
        ending = Ending(
            self.identity,
            self._session,
            self._checkpoint,
            self.life,
            self.reporter,
            self._faults,
        )
        try:
            ending.run(
                self._sources(),
                partial(self._observers.on_ended, self),
                error_class=error_class,
                delete_checkpoint=self._delete_checkpoint_on_stop,
            )
        finally:
            self.life.terminate()
            with self._progress_lock:
                self._progress_lock.notify_all()
            self.life.terminated.set()
            if self._trigger.gate is not None:
                self._trigger.gate.close()

    def _sources(self) -> list[DataStream]:
        """The distinct sources; those of the plan if the query ended before it was initialized."""
        if self._runtime is not None:
            return [unique.stream for unique in self._runtime.unique_sources]
        return list(dict.fromkeys(self._plan.sources)) if self._plan is not None else []
