"""The life of a query: its thread, from start to stop, and those who wait for it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from enum import Enum

from penstock.checkpoint import CheckpointDirectory
from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.batch_context import BatchContext
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.data_stream import DataStream
from penstock.engine.ending import Ending
from penstock.engine.events import QueryStartedEvent
from penstock.engine.failure import stream_failure
from penstock.engine.faults import NO_FAULTS, FaultInjector, FaultPoint
from penstock.engine.hooks import Hooks
from penstock.engine.log import LogContext, enter_query, install_record_factory, leave_query
from penstock.engine.micro_batch_execution import MicroBatchExecution
from penstock.engine.polling import Polling
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.triggers import Surroundings, Trigger, TriggerExecutor, WhenIdle
from penstock.engine.watermark import DEFAULT_POLICY, WatermarkTracker
from penstock.errors import (
    CheckpointError,
    ExecutionError,
    QueryStopTimeoutError,
    StreamFailedError,
    UnknownTriggerError,
    WrongThreadError,
)
from penstock.redaction import DEFAULT_REDACTOR, Redactor

_logger = logging.getLogger(__name__)


class State(Enum):
    """INITIALIZING until the sources are there, ACTIVE while batches may run, then TERMINATED."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    TERMINATED = "TERMINATED"


class StreamExecution:
    """A query and the thread it runs on. Every public method may be called from any thread."""

    def __init__(
        self,
        *,
        session: StreamSession,
        checkpoint: CheckpointDirectory,
        plan_factory: Callable[[QueryIdentity], QueryPlan],
        trigger: Trigger,
        name: str | None = None,
        clock: Clock | None = None,
        faults: FaultInjector = NO_FAULTS,
        hooks: Hooks | None = None,
        delete_checkpoint_on_stop: bool = False,
        on_terminated: Callable[[StreamExecution], None] | None = None,
        redactor: Redactor = DEFAULT_REDACTOR,
    ) -> None:
        """Reads the checkpoint's id, or gives it one; nothing else happens before `start`.

        `plan_factory` is called once, on the query's thread. `redactor` knows the query's secrets.
        """
        if not isinstance(trigger, Trigger):
            raise UnknownTriggerError(f"Unknown type of trigger: {trigger}")
        self._session = session
        self._checkpoint = checkpoint
        self._plan_factory = plan_factory
        self._trigger = trigger
        self._clock = clock or SystemClock()
        self._faults = faults
        self._hooks = hooks or Hooks()
        self._delete_checkpoint_on_stop = delete_checkpoint_on_stop
        self._on_terminated = on_terminated
        self.redactor = redactor
        faults.reach(FaultPoint.BEFORE_METADATA, -1)
        try:
            query_id = checkpoint.read_or_create_metadata(
                verify=session.settings.verify_metadata_exists
            ).id
        except CheckpointError as exc:
            exc.checkpoint = checkpoint.root
            raise
        faults.reach(FaultPoint.AFTER_METADATA, -1)
        self.identity = QueryIdentity(query_id, str(uuid.uuid4()), name)
        self.reporter = ProgressReporter(self.identity, session, self._clock)
        self._state = State.INITIALIZING
        self._state_lock = threading.Lock()
        self._stop_at_boundary = False
        self._stop_conditions: list[Callable[[BatchContext], bool]] = []
        self._has_done_a_batch = False
        self._wake = threading.Event()
        self._nudge = threading.Event()
        self._started = threading.Event()
        self._initialized = threading.Event()
        self._terminated = threading.Event()
        self._failure: StreamFailedError | None = None
        self._plan: QueryPlan | None = None
        self._runtime: QueryRuntime | None = None
        self._engine: MicroBatchExecution | None = None
        self._executor: TriggerExecutor | None = None
        self._progress_lock = threading.Condition()
        self._thread = session.create_thread(
            self._run_stream, f"stream execution thread for {self.identity}"
        )

    # What others may ask.

    @property
    def is_active(self) -> bool:
        return self._state is not State.TERMINATED

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_stopping(self) -> bool:
        """Whether it has been told to stop and has not yet."""
        return self._stop_at_boundary and not self._terminated.is_set()

    @property
    def failure(self) -> StreamFailedError | None:
        """What the query died of, if it did."""
        return self._failure

    @property
    def has_done_a_batch(self) -> bool:
        """Whether this run has committed one, however long ago that was."""
        return self._has_done_a_batch

    @property
    def session(self) -> StreamSession:
        return self._session

    @property
    def checkpoint(self) -> CheckpointDirectory:
        return self._checkpoint

    @property
    def runtime(self) -> QueryRuntime | None:
        """The parts of the running query; None until it is initialized."""
        return self._runtime

    @property
    def logical_plan(self) -> QueryPlan:
        """The plan bound to its sources. The first to ask must be the query's own thread."""
        if self._plan is None:
            current = threading.current_thread()
            if current is not self._thread:
                raise WrongThreadError(
                    "logicalPlan must be initialized in QueryExecutionThread "
                    f'"but the current thread was {current.name}'
                )
            self._plan = self._plan_factory(self.identity)
        return self._plan

    def explain(self, *, extended: bool = False) -> str:
        context = self._engine.context if self._engine else None
        execution = context and (context.execution or context.last_execution)
        if not execution:
            return "No physical plan. Waiting for data."
        return execution.explain(extended=extended)

    # Starting, stopping, waiting.

    def start(self) -> None:
        """Start the thread; returns when it runs and the listeners have been told."""
        install_record_factory()
        _logger.info(
            "Starting %s. Use %s to store the query checkpoint.",
            self.identity,
            self._checkpoint.root,
        )
        self._thread.start()
        while not self._started.wait(1.0) and self._thread.is_alive():
            pass

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query and wait until its thread has ended.

        At once: what runs is cancelled, and the batch will run again at the next start. Or
        gracefully: the batch that runs is finished and committed first. The wait is bounded by
        `timeout` seconds, or by `spark.sql.streaming.stopTimeout` as it is now where that is None;
        0 there is no bound. Raises QueryStopTimeoutError when the bound is reached. A query that
        has ended may be stopped again.
        """
        self.stop_at_boundary()
        if not graceful:
            self._set_terminated()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            reason = f"Query {self.identity} was stopped"
            if not graceful:
                self._session.cancel_jobs(self.identity, reason)
            self._await_thread(timeout)
            # The thread may have submitted one more job in the meantime.
            self._session.cancel_jobs(self.identity, reason)
        _logger.info("Query %s was stopped", self.identity)

    def stop_at_boundary(self) -> None:
        """Stop when the batch that runs, if one does, is committed. Does not wait for that."""
        self._stop_at_boundary = True
        self._wake.set()
        self._nudge.set()
        if self._executor is not None:
            self._executor.wake()

    def stop_after(self, condition: Callable[[BatchContext], bool]) -> None:
        """Stop at the first batch boundary at which the condition holds of the batch just done.

        The condition is called on the query's thread, once a batch.
        """
        self._stop_conditions.append(condition)

    def step(self, timeout: float | None = None) -> bool:
        """Run exactly one trigger and wait until it is over; for a query with a ManualTrigger.

        False if the query has ended, or if the time is up. Raises what the query died of.
        """
        self._refuse_own_thread()
        gate = self._trigger.gate
        if gate is None:
            raise ExecutionError(f"a query steps only with a ManualTrigger, not {self._trigger}")
        stepped = gate.step(timeout)
        if not stepped and gate.is_closed:
            self._terminated.wait(timeout)
        self._raise_failure()
        return stepped

    def await_initialization(self, timeout: float) -> bool:
        """Wait until the sources are there; raises what the query died of if it did."""
        self._refuse_own_thread()
        self._initialized.wait(timeout)
        self._raise_failure()
        return self._initialized.is_set()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended; whether it has. Raises what it died of if it did."""
        self._refuse_own_thread()
        self._terminated.wait(timeout)
        self._raise_failure()
        return not self.is_active

    def process_all_available(self) -> None:
        """Wait until all data that is available now is processed. For tests: it may wait long."""
        self._refuse_own_thread()
        self._raise_failure()
        with self._progress_lock:
            if self._runtime is not None:
                self._runtime.no_new_data = False
            self._nudge.set()
            while self.is_active:
                self._progress_lock.wait(10)
                self._raise_failure()
                if self._runtime is not None and self._runtime.no_new_data:
                    return
        self._terminated.wait()
        self._raise_failure()

    # The query's thread.

    def _run_stream(self) -> None:
        error_class: str | None = None
        identity = self.identity
        enter_query(LogContext(identity.id, identity.run_id, identity.name, self.redactor))
        try:
            self._session.enter(self.identity, self._description())
            self._session.post_event(
                QueryStartedEvent(
                    self.identity.id,
                    self.identity.run_id,
                    self.identity.name,
                    format_timestamp(self._clock.time_millis()),
                )
            )
            self._started.set()
            self._initialize_and_run()
            self.reporter.update_status("Stopped")
        except BaseException as exc:
            if not self.is_active and self._session.is_interruption(exc):
                self.reporter.update_status("Stopped")
            else:
                error_class = self._session.error_class(exc)
                _logger.error("Query %s terminated with error", self.identity, exc_info=exc)
                self._record_failure(self._session.translated(exc))
        finally:
            self._started.set()
            self._initialized.set()
            self._shut_down(error_class)
            leave_query()

    def _initialize_and_run(self) -> None:
        self.reporter.update_status("Initializing sources")
        self._faults.reach(FaultPoint.BEFORE_SOURCES, -1)
        plan = self.logical_plan
        schedule = self._trigger.schedule(plan.sources, self._surroundings())
        self._executor = schedule.executor
        self._runtime = QueryRuntime(
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
        )
        self._engine = MicroBatchExecution(
            self._runtime,
            schedule,
            is_active=self._goes_on,
            finish=self._set_terminated,
            after_batch=self._close_batch,
            polling=self._polling(schedule.when_idle),
        )
        for unique in self._runtime.unique_sources:
            unique.stream.on_new_data(self._nudge.set)
        self._faults.reach(FaultPoint.AFTER_SOURCES, -1)
        if self._stop_at_boundary:
            schedule.executor.wake()
        if self._activate():
            _logger.info("Finish initializing with logical plan:\n%s", plan)
            self._initialized.set()
            self._engine.run_activated_stream()

    def _surroundings(self) -> Surroundings:
        wraps = self._session.settings.available_now_wrapper
        return Surroundings(self._clock, self._wake, wraps_for_available_now=wraps)

    def _polling(self, when_idle: WhenIdle) -> Polling:
        waits = when_idle is not WhenIdle.NEXT_TRIGGER
        delay = self._session.settings.polling_delay_ms if waits else 0
        return Polling(delay, self._nudge, backs_off=when_idle is WhenIdle.BACK_OFF)

    def _close_batch(self, context: BatchContext) -> None:
        self._has_done_a_batch = True
        if any(condition(context) for condition in self._stop_conditions):
            self._stop_at_boundary = True

    def _goes_on(self) -> bool:
        return self.is_active and not self._stop_at_boundary

    def _activate(self) -> bool:
        """INITIALIZING -> ACTIVE, unless the query was stopped meanwhile."""
        with self._state_lock:
            if self._state is State.INITIALIZING:
                self._state = State.ACTIVE
            return self._state is State.ACTIVE

    def _set_terminated(self) -> None:
        with self._state_lock:
            self._state = State.TERMINATED

    def _record_failure(self, exc: BaseException) -> None:
        context = self._engine.context if self._engine else None
        plan = self._plan if self._state is not State.INITIALIZING else None
        reason = self._session.error_message(exc)
        self._failure = stream_failure(self.identity, self._state.value, context, plan, exc, reason)
        self._failure.checkpoint = self._checkpoint.root
        if context is not None and context.is_current_batch_constructed:
            self._failure.batch_id = context.batch_id
        self.reporter.update_status(f"Terminated with exception: {reason}")

    def _shut_down(self, error_class: str | None) -> None:
        """Let go of everything, then of those who wait."""
        ending = Ending(self.identity, self._session, self._checkpoint, self._faults)
        try:
            ending.attempt(self._session.shield)
            ending.attempt(lambda: ending.stop_sources(self._streams()))
            ending.attempt(self._checkpoint.release)
            self._set_terminated()
            self.reporter.update_status(is_data_available=False, is_trigger_active=False)
            if self._on_terminated is not None:
                on_terminated = self._on_terminated
                ending.attempt(lambda: on_terminated(self))
            ending.attempt(lambda: self._session.leave(self.identity))
            ending.attempt(lambda: ending.tell_listeners(self._failure, error_class))
            if self._delete_checkpoint_on_stop:
                ending.attempt(lambda: ending.delete_checkpoint(self._failure))
        finally:
            self._set_terminated()
            with self._progress_lock:
                self._progress_lock.notify_all()
            self._terminated.set()
            if self._trigger.gate is not None:
                self._trigger.gate.close()

    def _streams(self) -> list[DataStream]:
        """The distinct sources, as far as the query got with them."""
        if self._runtime is not None:
            return [unique.stream for unique in self._runtime.unique_sources]
        return list(dict.fromkeys(self._plan.sources)) if self._plan is not None else []

    # Small things.

    def _await_thread(self, timeout: float | None) -> None:
        if timeout is None:
            timeout = max(self._session.settings_now().stop_timeout_ms, 0) / 1000 or None
        bound = timeout
        deadline = None if bound is None else time.monotonic() + bound
        self._thread.join(bound)
        if self._thread.is_alive() and deadline is not None:
            raise QueryStopTimeoutError(
                f"Stream Execution thread for stream {self.identity} failed to stop within "
                f"{round((bound or 0) * 1000)} milliseconds (specified by "
                "spark.sql.streaming.stopTimeout). "
                f"It was last doing this: {self.reporter.status.message}"
            )

    def _refuse_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise WrongThreadError(
                "Cannot wait for a query state from the same thread that is running the query"
            )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _description(self) -> str:
        identity = self.identity
        return f"{identity.name or ''}\nid = {identity.id}\nrunId = {identity.run_id}\nbatch = init"
