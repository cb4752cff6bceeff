"""The Spark session a query runs in: a clone of the user's, with the settings streaming needs."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.checkpoint import LogVersions, OffsetSeqMetadata
from penstock.engine.events import QueryEvent, QueryIdleEvent, QueryProgressEvent
from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.seam import QueryIdentity, StreamSession
from penstock.engine.settings import Settings
from penstock.spark.jvm import failures
from penstock.spark.jvm.calls import send
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.local_file_system import RAW_FILE_SYSTEM, local_file_system
from penstock.spark.jvm.pyspark_api import inheritable_thread
from penstock.spark.jvm.support import FILE_MANAGER_CLASS
from penstock.spark.session.call_site import CallSite
from penstock.spark.session.jvm_events import post_progress, to_jvm_event
from penstock.spark.session.query_gauges import QueryGauges
from penstock.spark.session.session_conf import SessionConf

_logger = logging.getLogger(__name__)

STATE_FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_DIRECT_SCHEME = "FILE"
_POOL = "spark.scheduler.pool"
_QUERY_ID = "sql.streaming.queryId"
_IS_CONTINUOUS = "__is_continuous_processing"
_METRICS = "spark.sql.streaming.metricsEnabled"
_STAGE_IDS_IN_CLASSES = "spark.sql.codegen.useIdInClassName"
_WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


class SparkStreamSession(StreamSession):
    """The query's clone of the user's session. Listeners are those of the user's session."""

    def __init__(self, spark: SparkSession, call_site: CallSite | None = None) -> None:
        self.jvm = Jvm.of(spark)
        self.spark = spark
        self.jsession = spark._jsparkSession.cloneSession()
        self._context = spark.sparkContext
        self._scala_context = spark.sparkContext._jsc.sc()
        self._listeners = spark._jsparkSession.streams()
        self._conf = SessionConf(self.jvm, self.jsession)
        self._settings = self._read_settings(self._conf)
        self._progress_retention = self._settings.progress_retention
        self._gauges: QueryGauges | None = None
        self._call_site = call_site
        self._run_id = ""
        self._query = ""
        self._described = ""
        self._jvm_thread: Any = None
        self._jvm_threads_of_sinks: list[Any] = []
        self._is_cancelled = False
        self._interrupt_lock = threading.Lock()
        self._at_the_end: list[Callable[[], None]] = []
        self._writes_directly = False

    @property
    def settings(self) -> Settings:
        return self._settings

    def settings_now(self) -> Settings:
        try:
            return self._user_settings()
        except Exception:  # the JVM is gone, or a setting was made invalid since
            return self._settings

    @property
    def progress_retention(self) -> int:
        return self._progress_retention

    @property
    def reports_first_watermark(self) -> bool:
        return self.jvm.line.reports_first_watermark

    def event_time_text(self, millis: int) -> str:
        return self.jvm.line.event_time_text(millis)

    @property
    def shows_batch_duration(self) -> bool:
        return self.jvm.line.shows_batch_duration

    @property
    def rounds_rates(self) -> bool:
        return self.jvm.line.rounds_rates

    @property
    def watermark_policy(self) -> str:
        return self.get_conf(_WATERMARK_POLICY)

    def get_conf(self, key: str) -> str:
        """A setting's value, or its default."""
        return self._conf.get(key)

    def find_conf(self, key: str) -> str | None:
        """A setting's value, or its default, or None if it has neither."""
        return self._conf.find(key)

    def is_set(self, key: str) -> bool:
        """Whether a setting is set explicitly, even if to its default."""
        return self._conf.is_set(key)

    def is_on(self, key: str) -> bool:
        """Whether a setting is true. False if this Spark lacks it."""
        return self._conf.is_on(key)

    def is_on_for_user(self, key: str) -> bool:
        """Whether a setting is true in the user's session now; it may change while running."""
        return SessionConf(self.jvm, self.spark._jsparkSession).is_on(key)

    def set_conf(self, key: str, value: str) -> None:
        self._conf.set({key: value})

    def use_direct_files(self) -> None:
        """Make `direct` return locations on a file system without checksums (docs/adr/0008).

        Without forked processes too if tasks run in this JVM (docs/adr/0030).
        """
        is_local = self._scala_context.isLocal()
        self._conf.set(
            {
                FILE_MANAGER_CLASS: self.jvm.line.classes[
                    "FileSystemBasedCheckpointFileManager"
                ].name,
                f"fs.{_DIRECT_SCHEME}.impl": (
                    local_file_system(self.jvm) if is_local else RAW_FILE_SYSTEM
                ),
                # Hadoop's FileSystem cache treats the schemes FILE and file as the same.
                f"fs.{_DIRECT_SCHEME}.impl.disable.cache": "true",
            }
        )
        self._writes_directly = True

    def direct(self, location: str) -> str:
        """The location for writing to a local checkpoint without checksum files (docs/adr/0008).

        Must not be recorded in the checkpoint: only this session can read such a location.
        """
        if self._writes_directly and location.startswith("file:"):
            return _DIRECT_SCHEME + location.removeprefix("file")
        return location

    def hadoop_conf(self) -> Any:
        return self.jsession.sessionState().newHadoopConf()

    @property
    def is_stopped(self) -> bool:
        try:
            return self._context._jsc is None or bool(self._scala_context.isStopped())
        except Exception:  # the JVM is gone
            return True

    def log_versions(self) -> LogVersions:
        """The versions of the logs that this Spark reads."""
        line = self.jvm.line
        if line.newest_commit_log is not None:
            return LogVersions(
                line.newest_offset_log,
                line.newest_commit_log,
                has_conditions=line.has_log_conditions,
            )
        version = int(self.find_conf(STATE_FORMAT_VERSION) or 1)
        return LogVersions(line.newest_offset_log, only_commits=version)

    # The query thread.

    def create_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return inheritable_thread(target, name, self.spark)

    def create_sink_thread(self, target: Callable[[], None], sink: str) -> threading.Thread:
        def write() -> None:
            self.jvm.cls("ClassicSession").setActiveSession(self.jsession)
            self._context.setLocalProperty(_POOL, f"{self._query}.{sink}")
            with self._interruptible():
                target()

        return inheritable_thread(write, f"sink {sink} of {self._query}", self.spark)

    def enter(self, identity: QueryIdentity, description: str) -> None:
        self._run_id = identity.run_id
        self._query = identity.name or identity.id
        self._jvm_thread = self.jvm.cls("java.lang.Thread").currentThread()
        self._context.setJobGroup(identity.run_id, description, interruptOnCancel=True)
        self._context.setLocalProperty(_QUERY_ID, identity.id)
        self._context.setLocalProperty(_IS_CONTINUOUS, "false")
        if self.is_on(_METRICS):
            self._register_gauges(identity)
        self.jvm.cls("ClassicSession").setActiveSession(self.jsession)
        # Spark must neither reorder stateful operators nor change their distribution.
        settings = {
            "spark.sql.cbo.enabled": "false",
            "spark.sql.requireAllClusterKeysForDistribution": "false",
        }
        line = self.jvm.line
        if not line.adaptive_execution:
            settings["spark.sql.adaptive.enabled"] = "false"
        state_partitions = line.state_partitions_key
        if state_partitions is not None and not self.is_set(state_partitions):
            settings[state_partitions] = self.get_conf("spark.sql.shuffle.partitions")
        if not self.is_set(_STAGE_IDS_IN_CLASSES):
            # So that stages with the same code, as of the sources of a union, share one class.
            settings[_STAGE_IDS_IN_CLASSES] = "false"
        self._conf.set(settings)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Context manager on the thread of a sink: `cancel_jobs` interrupts its JVM thread."""
        threads = self.jvm.cls("java.lang.Thread")
        own = threads.currentThread()
        with self._interrupt_lock:
            self._jvm_threads_of_sinks.append(own)
            if self._is_cancelled:
                own.interrupt()
        try:
            yield
        finally:
            with self._interrupt_lock:
                self._jvm_threads_of_sinks.remove(own)
                threads.interrupted()

    def _register_gauges(self, identity: QueryIdentity) -> None:
        try:
            self._gauges = QueryGauges(self.spark, identity)
        except Exception:
            _logger.warning("The metrics of query %s are not registered", identity, exc_info=True)
        else:
            self.at_the_end(self._gauges.remove)

    def shield(self) -> None:
        with self._interrupt_lock:
            if self._jvm_thread is not None:
                self._jvm_thread = None
                self.jvm.cls("java.lang.Thread").interrupted()

    def at_the_end(self, step: Callable[[], None]) -> None:
        """Register a function that `leave` calls, in order of registration."""
        self._at_the_end.append(step)

    def leave(self, identity: QueryIdentity) -> None:
        with contextlib.ExitStack() as steps:
            # ExitStack calls them in reverse order, each even if others raise.
            steps.callback(self._deactivate_state_stores, identity)
            for step in reversed(self._at_the_end):
                steps.callback(step)

    def _deactivate_state_stores(self, identity: QueryIdentity) -> None:
        self.state_coordinator().deactivateInstances(self.jvm.uuid(identity.run_id))

    def state_coordinator(self) -> Any:
        """Spark's StateStoreCoordinatorRef, which serves all queries."""
        return self._listeners.stateStoreCoordinator()

    def describe_jobs(self, batch_id: int, description: str) -> None:
        if description == self._described:  # an idle query asks ten times a second
            return
        site = self._call_site
        # The call site again, since PySpark's actions, as in foreachBatch, remove it at their end.
        send(
            self.jvm.java.start,
            "describeJobs",
            self._scala_context,
            str(batch_id),
            description,
            None if site is None else site.short,
            None if site is None else site.long,
        )
        self._described = description

    def cancel_jobs(self, identity: QueryIdentity, reason: str) -> None:
        try:
            self.jvm.call(
                self._scala_context,
                "JobGroups",
                "cancelJobGroup",
                groupId=identity.run_id,
                reason=reason,
            )
        finally:
            with self._interrupt_lock:
                self._is_cancelled = True
                for thread in (self._jvm_thread, *self._jvm_threads_of_sinks):
                    if thread is not None:
                        thread.interrupt()

    # Settings that the offset log records.

    def recordable_conf(self) -> Mapping[str, str]:
        metadata = self.jvm.java.start.recordable(self.jsession)
        conf: dict[str, str] = json.loads(metadata)["conf"]
        return conf

    def apply_recorded_conf(self, metadata: OffsetSeqMetadata) -> None:
        before = self.recordable_conf()
        self.jvm.java.start.restore(self.jsession, metadata.json)
        self._conf.forget()
        frozen: list[str] = []
        for key, value in self.recordable_conf().items():
            if key not in metadata.conf:
                _logger.warning(
                    "Conf '%s' was not found in the offset log, using default value '%s'",
                    key,
                    value,
                )
            elif before.get(key) != value:
                frozen.append(key)
                _logger.warning(
                    "Updating the value of conf '%s' in current session from '%s' to '%s'.",
                    key,
                    before.get(key),
                    value,
                )
        if frozen:
            _logger.warning(
                "The session's %s had no effect: the checkpoint has recorded the value of its "
                "first batch. To change it, start with a new checkpoint.",
                ", ".join(frozen),
            )

    # Listeners and errors.

    def post_event(self, event: QueryEvent) -> None:
        try:
            if isinstance(event, QueryProgressEvent) and self._post_progress(event.progress):
                return
            self._listeners.postListenerEvent(to_jvm_event(self.jvm, event))
            if isinstance(event, QueryProgressEvent | QueryIdleEvent):
                self._progress_retention = self._user_settings().progress_retention
        except Exception:
            _logger.warning("Could not post %s", type(event).__name__, exc_info=True)

    def _post_progress(self, progress: StreamingQueryProgress) -> bool:
        """Post a record as JSON and update the retention. False if that is not possible."""
        user_session = self.spark._jsparkSession
        retention = post_progress(self.jvm, self._listeners, user_session, progress)
        if retention is not None:
            self._progress_retention = retention
        return retention is not None

    def show_progress(self, progress: StreamingQueryProgress) -> None:
        """Update the gauges in Spark's metrics system, if they are registered."""
        if self._gauges is not None:
            self._gauges.update(progress)

    def is_interruption(self, error: BaseException) -> bool:
        return failures.is_interruption(self.jvm, error, self._run_id)

    def translated(self, error: BaseException) -> BaseException:
        return failures.translated(error)

    def error_message(self, error: BaseException) -> str:
        return failures.error_message(error, self.jvm.line)

    def describe_error(self, error: BaseException) -> str:
        return failures.stack_trace(error) or super().describe_error(error)

    def error_class(self, error: BaseException) -> str | None:
        return failures.error_class(error, self.jvm.line)

    def _user_settings(self) -> Settings:
        """The current settings of the user's session."""
        return self._read_settings(SessionConf(self.jvm, self.spark._jsparkSession))

    def _read_settings(self, conf: SessionConf) -> Settings:
        found = Settings.read(lambda key: self._millis(conf.get(key)), conf.find)
        wraps = found.available_now_wrapper or self.jvm.line.always_wraps_for_available_now
        return replace(found, available_now_wrapper=wraps)

    def _millis(self, text: str) -> int:
        as_millis = self.jvm.cls("JavaUtils").timeStringAsMs
        return int(self.jvm.once(f"milliseconds of {text}", lambda: as_millis(text)))
