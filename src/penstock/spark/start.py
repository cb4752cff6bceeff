"""Opens a query: creates its sink, lets Spark check and analyze it, opens its checkpoint."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame

from penstock.checkpoint import (
    CheckpointDirectory,
    CheckpointFiles,
    LocalFiles,
    ObjectStoreFiles,
)
from penstock.checkpoint.lock import hold_for_query
from penstock.checkpoint.store_lock import STORE_SCHEMES, hold_store_for_query
from penstock.connectors import PythonSink
from penstock.engine.clock import Clock
from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.hooks import Hooks
from penstock.engine.opening import open_checkpoint
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.run_observer import RunObserver
from penstock.engine.seam import QueryIdentity
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import Trigger
from penstock.redaction import Redactor
from penstock.spark.batch.leaves import source_options
from penstock.spark.batch.query_plan import QuerySpec, SparkQueryPlan
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.hadoop_files import HadoopFiles
from penstock.spark.jvm.hadoop_store import find_store
from penstock.spark.jvm.java_side import fields_of
from penstock.spark.jvm.support import FILE_MANAGER_CLASS, require_supported
from penstock.spark.session.call_site import CallSite
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.sink_factory import SinkChoice, SinkFactory, SinkRequest
from penstock.spark.sinks.sink_log import SKIP_KNOWN_BATCHES
from penstock.spark.sinks.sink_names import require_sink_name
from penstock.spark.sources.kafka_groups import CONSUMER_GROUP, KafkaGroupReporter

_logger = logging.getLogger(__name__)

_REDACTION_RULE = "spark.redaction.regex"


@dataclass(frozen=True)
class StartRequest:
    """The parameters of a start, as the writer collected them."""

    sink: SinkRequest
    trigger: Trigger
    path: str | None = None
    table: str | None = None
    clock: Clock | None = None
    faults: FaultInjector = NO_FAULTS
    hooks: Hooks | None = None
    pace_ms: int | None = None
    options_shown: Mapping[str, str] | None = None
    quarantine: QuarantineRules | None = None
    call_site: CallSite | None = None

    @property
    def shown(self) -> Mapping[str, str]:
        """The options of the query as the writer was given them, for observers."""
        return self.sink.options if self.options_shown is None else self.options_shown


def open_query(
    df: DataFrame, request: StartRequest, observers: Sequence[RunObserver] = ()
) -> StreamExecution:
    """Check a query as Spark does and open a run of it. The run is not started.

    Raises Spark's own errors for what Spark would reject.
    """
    require_supported(df.sparkSession)
    jvm = Jvm.of(df.sparkSession)
    factory = SinkFactory(df, request.sink)
    require_sink_name(jvm, factory.jsession, request.sink.name)
    with _active(jvm, factory.jsession):
        if request.table is not None:
            choice = factory.create_for_table(request.table)
        else:
            choice = factory.create(request.path)
        analyzed = _analyze(jvm, df, request, factory, choice)
    location, is_temporary, is_replaced = fields_of(
        jvm.java.start.describeStart(analyzed, choice.sink.jtable)
    )
    sink = choice.sink
    if is_replaced == "true":  # Delta's rule adds the table of the catalog to its sink
        sink = sink.replaced_by(analyzed.sink())
    session = SparkStreamSession(df.sparkSession, request.call_site)
    checkpoint = CheckpointDirectory(checkpoint_files(session, location), session.log_versions())
    spec = QuerySpec(
        analyzed=analyzed.inputQuery(),
        sink=sink,
        output_mode=factory.output_mode,
        options=jvm.scala_map(choice.options),
        is_terminating=request.trigger.ends_with_available_data,
        sink_name=request.sink.name,
        skips_known_batches=(request.sink.option(SKIP_KNOWN_BATCHES) or "").lower() == "true",
    )
    name = request.sink.option("queryName")
    verify = session.settings.verify_metadata_exists
    group = request.sink.option(CONSUMER_GROUP)
    reporters = [KafkaGroupReporter(session, group)] if group else []
    execution = StreamExecution(
        identity=open_checkpoint(checkpoint, name, request.faults, verify=verify),
        session=session,
        checkpoint=checkpoint,
        plan_factory=lambda identity: _bind_plan(session, identity, checkpoint, spec),
        trigger=request.trigger.for_one_run(),
        clock=request.clock,
        faults=request.faults,
        hooks=request.hooks,
        pace_ms=request.pace_ms,
        delete_checkpoint_on_stop=is_temporary == "true",
        options=request.shown,
        redactor=Redactor(session.find_conf(_REDACTION_RULE)).knowing(
            request.sink.options,
            *(
                sink.secret_options()
                for sink in request.sink.functions
                if isinstance(sink, PythonSink)
            ),
            *source_options(jvm, spec.analyzed),
        ),
        on_started=lambda: _show_memory_table(choice, name),
        observers=[*observers, *reporters],
        quarantine=request.quarantine,
    )
    execution.reporter.observe(session.show_progress)
    return execution


def _show_memory_table(choice: SinkChoice, name: str | None) -> None:
    """Register the memory sink of a started query as the temporary view of its name."""
    if choice.memory_table is not None:
        choice.memory_table.createOrReplaceTempView(name)


def _bind_plan(
    session: SparkStreamSession,
    identity: QueryIdentity,
    checkpoint: CheckpointDirectory,
    spec: QuerySpec,
) -> SparkQueryPlan:
    """Bind the query to its sources, with direct files if the checkpoint is local."""
    if isinstance(checkpoint.files, LocalFiles):
        _warn_of_machines(session, checkpoint.files.local_path)
        lock = hold_for_query(checkpoint.files.local_path, f"query {identity}")
        if lock is not None:
            session.at_the_end(lock.release)
        # A rewritten file has no checksum, and Spark would check it against the old one.
        checkpoint.files.remove_checksum_twins("state")
        checkpoint.files.remove_checksum_twins("sources")
        session.use_direct_files()
    elif urlsplit(checkpoint.root).scheme in STORE_SCHEMES:
        session.at_the_end(hold_store_for_query(checkpoint.files, f"query {identity}").release)
    return SparkQueryPlan(session, identity, checkpoint, spec)


def _warn_of_machines(session: SparkStreamSession, path: Path) -> None:
    """Warn if the executors, which write the state, may be on machines without this directory."""
    context = session.spark.sparkContext
    if not context._jsc.sc().isLocal():
        _logger.warning(
            "The checkpoint %s is a local path, and the master is %s. It has to be a directory "
            "that the driver and all executors share, such as an NFS mount.",
            path,
            context.master,
        )


def checkpoint_files(session: SparkStreamSession, location: str) -> CheckpointFiles:
    """The file layer for a checkpoint: for a local directory, for an object store, or Hadoop's.

    HadoopFiles also if the user has configured a checkpoint file manager: for a local directory
    any, for an object store one that is not Spark's, whose managers cannot write conditionally.
    """
    parts = urlsplit(location)
    configured = session.find_conf(FILE_MANAGER_CLASS)
    if parts.scheme == "file" and not parts.netloc and configured is None:
        return LocalFiles(_local_path(location), uri=location.rstrip("/"))
    if configured is None or configured.startswith("org.apache.spark."):
        store = find_store(session.jvm, location, session.hadoop_conf())
        if store is not None:
            return ObjectStoreFiles(store)
    return HadoopFiles(session.jvm, location, session.hadoop_conf())


def _local_path(location: str) -> str:
    """The path of a Hadoop `file:` location, which is not percent-encoded, unlike a URI."""
    return "/" + location[len("file:") :].lstrip("/")


@contextlib.contextmanager
def _active(jvm: Jvm, jsession: Any) -> Iterator[None]:
    """Context manager: sets the active session, in which Spark looks up data sources."""
    before = jvm.java.start.activate(jsession)
    try:
        yield
    finally:
        jvm.java.start.activate(before)


def _analyze(
    jvm: Jvm, df: DataFrame, request: StartRequest, factory: SinkFactory, choice: SinkChoice
) -> Any:
    """Run Spark's analyzer, which checks the query and resolves its checkpoint location."""
    return jvm.java.start.analyze(
        df._jdf,
        request.sink.option("queryName"),
        request.sink.name,
        request.sink.option("checkpointLocation"),
        choice.may_use_temporary_checkpoint,
        choice.recovers_from_checkpoint,
        choice.sink.jtable,
        factory.output_mode,
        choice.catalog_and_ident,
        choice.catalog_table,
    )
