"""What is done with a batch inside the JVM, each as one function: one round trip and not ten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles
from penstock.spark.questions import Questions

_OBJECT = "java.lang.Object"
_REFERENCE = "java.util.concurrent.atomic.AtomicReference"
_ITERABLE_ONCE = "scala.collection.IterableOnce"
_RDD = "org.apache.spark.rdd.RDD"
_PARTIAL = "scala.PartialFunction"
_OPTION = "scala.Option"
_ENCODER = "org.apache.spark.sql.Encoder"
_DATASET = "org.apache.spark.sql.Dataset"
_SEQ = "scala.collection.immutable.Seq"
_STREAM = "org.apache.spark.sql.connector.read.streaming.SparkDataStream"
_SCAN = "StreamingDataSourceV2ScanRelation"
_SCAN_PARTS = (
    "StreamingDataSourceV2Relation",
    "org.apache.spark.sql.connector.read.Scan",
    _SEQ,
    _STREAM,
)


class BatchFunctions:
    """Makes the functions. Each is made once for a query, in many round trips."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._ask = Handles.of(jvm)

    # The leaves.

    def put_scan(self, java_map: Any, node: Any, scan: Any, parts: Sequence[Any]) -> Any:
        """A Function2 of two offsets: puts the scan between them into a map, for a leaf.

        `parts` are the scan's own, in the order of its constructor.
        """
        ask = self._ask
        copy = ask.method(_SCAN, "copy", *_SCAN_PARTS, _OPTION, _OPTION).bindTo(scan)
        between = ask.optional(ask.optional(ask.fix(copy, 0, *parts), 0), 1)
        return ask.function(ask.chain(between.asType(ask.generic(2)), ask.put(java_map, node)), 2)

    def get_batch(self, source: Any) -> Any:
        """A Function2 of two offsets, the first of which may be null: the plan of a V1 batch.

        If the batch is not a streaming one, it answers with the text of its plan.
        """
        ask = self._ask
        get = ask.method("Source", "getBatch", _OPTION, "Offset")
        batch = ask.optional(get.bindTo(source), 0)
        text = ask.chain(
            ask.call("ClassicDataset", "queryExecution"),
            ask.call("QueryExecution", "logical"),
            ask.call(_OBJECT, "toString"),
        )
        is_streaming = ask.equal_to(True, ask.call("ClassicDataset", "isStreaming"))
        plan = ask.choose(is_streaming, ask.call("ClassicDataset", "logicalPlan"), text)
        return ask.function(ask.chain(batch.asType(ask.generic(2)), plan), 2)

    def put_plan(self, java_map: Any, node: Any, stream: Any) -> Any:
        """A Function1 of a V1 batch's plan: puts it into a map, under the leaf's own columns.

        It answers null, or the plan's columns as a text if they are not as many as the leaf's.
        """
        ask = self._ask
        output = node.output()
        columns = ask.call("LogicalPlan", "output")
        aliases = ask.chain(
            columns,
            ask.call("scala.collection.IterableOps", "zip", (_ITERABLE_ONCE, output)),
            ask.call("scala.collection.IterableOps", "map", ("scala.Function1", self._alias())),
        )
        project = ask.of_one(
            ask.constructor("Project", _SEQ, "LogicalPlan"), aliases, ask.identity()
        )
        fits = ask.equal_to(
            output.size(), ask.chain(columns, ask.call("scala.collection.SeqOps", "size"))
        )
        text = ask.chain(columns, ask.joined_by(","))
        put = ask.chain(self._with_stream(stream), project, ask.put(java_map, node))
        return ask.function(ask.choose(fits, put, text))

    def _alias(self) -> Any:
        """A Function1 of a pair of columns: the first under the name and the id of the second."""
        return self._jvm.once("alias", self._make_alias)

    def _make_alias(self) -> Any:
        ask = self._ask
        named = "NamedExpression"
        first, second = (ask.call("scala.Tuple2", side) for side in ("_1", "_2"))
        some = ask.construct("scala.Some", _OBJECT)
        make = ask.only_constructor("Alias")
        empty = self._jvm.empty_seq
        make = ask.fix(ask.fix(make, 5, empty), 3, empty)
        return ask.function(
            ask.of_one(
                make,
                first,
                ask.chain(second, ask.call(named, "name")),
                ask.chain(second, ask.call(named, "exprId")),
                ask.chain(first, ask.call(named, "metadata"), some),
            )
        )

    def _with_stream(self, stream: Any) -> Any:
        """A handle from a plan to one whose leaves, where they can, name their stream."""
        ask = self._ask
        aware = "StreamSourceAwareLogicalPlan"
        name = ask.choose(
            ask.is_instance(aware), ask.call(aware, "withStream", (_STREAM, stream)), ask.identity()
        )
        return ask.call("LogicalPlan", "transformUp", (_PARTIAL, ask.total(name)))

    # The execution.

    def execution(
        self,
        write: Any,
        replacing: Sequence[tuple[str, Any]],
        fixed: Mapping[int, Sequence[Any]],
        *,
        analyze: bool,
    ) -> Any:
        """A Function4 of batch id, metadata of the batch before or null, metadata, and is-first.

        It replaces the leaves of `write`, by those of its methods that `replacing` names and the
        function for each, and makes Spark's execution of that. The `fixed` arguments of its
        constructor are runs of them by the position of the first. Unless it is to `analyze` the
        plan, Spark is told that this has been done.
        """
        ask = self._ask
        replace = ask.chain(
            *(ask.call("LogicalPlan", method, (_PARTIAL, f)) for method, f in replacing)
        ).bindTo(write)
        kind = str(write.getClass().getName())
        numbered = ask.method(kind, "withNewBatchId", "long").asType(ask.generic(2))
        if not analyze:
            mark = ask.after(ask.call("LogicalPlan", "setAnalyzed"), ask.identity())
            numbered = ask.chain(numbered, mark)
        make = ask.only_constructor("IncrementalExecution")
        for first in sorted(fixed, reverse=True):
            make = ask.fix(make, first, *fixed[first])
        of_plan = ask.optional(make, 2).asType(ask.generic(5))
        execution = ask.fed_by(of_plan, 0, ask.fed_by(numbered, 0, replace))
        # The batch id goes into the plan and into the execution.
        return ask.function(ask.reordered(execution, 4, (0, 0, 1, 2, 3)), 4)

    # The sink.

    def write(self, encoder: Any, *, counts: bool) -> Any:
        """A Function1 of an execution that writes by itself: runs it.

        It answers the rows written, or null if Spark's operator for the sink does not count.
        """
        ask = self._ask
        # Collecting runs the writer; a write has no rows, so none come back.
        run = ask.chain(self._dataset(encoder), ask.call("ClassicDataset", "collect"))
        rows = ask.null()
        if counts:
            executed = ask.call("QueryExecution", "executedPlan")
            rows = ask.chain(executed, Questions(self._jvm).rows_written())
        return ask.function(ask.after(run, rows))

    def add_batch(self, sink: Any, encoder: Any) -> Any:
        """A Function2 of batch id and execution: hands the batch to a V1 sink, as one execution."""
        ask, jvm = self._ask, self._jvm
        batch_id, dataset = (jvm.cls(_REFERENCE)() for _ in range(2))
        call = ask.method("V1Sink", "addBatch", "long", _DATASET).bindTo(sink)
        call = call.asType(ask.generic(2))
        body = ask.fed_by(ask.fed_by(call, 1, self._taken(dataset)), 0, self._taken(batch_id))
        run = ask.method_of(
            jvm.module("SQLExecution"),
            "withNewExecutionId",
            "QueryExecution",
            (_OPTION, jvm.none),
            ("scala.Function0", ask.function(body, 0)),
        )
        leave_id = ask.method_of(batch_id, "set", _OBJECT)
        leave_dataset = ask.chain(self._dataset(encoder), ask.method_of(dataset, "set", _OBJECT))
        of_execution = ask.reordered(ask.after(leave_dataset, run), 2, (1,))
        return ask.function(ask.after(ask.reordered(leave_id, 2, (0,)), of_execution), 2)

    def ordinary_frame(self, session: Any, encoder: Any) -> Any:
        """A Function1 of an execution: its rows as an ordinary Dataset of the session."""
        ask, jvm = self._ask, self._jvm
        rdd_and_dataset = (_RDD, "ClassicDataset")
        leaf = ask.method("LogicalRDD$", "fromDataset", *rdd_and_dataset, "boolean", "boolean")
        is_streaming = from_checkpoint = False
        leaf = ask.fix(leaf.bindTo(jvm.module("LogicalRDD")), 2, is_streaming, from_checkpoint)
        of_execution = ask.of_one(leaf, ask.call("QueryExecution", "toRdd"), self._dataset(encoder))
        frame = ask.method("ClassicDataset$", "ofRows", "ClassicSession", "LogicalPlan")
        module = jvm.module("ClassicDataset")
        frame = ask.fix(frame.bindTo(module), 0, session).asType(ask.generic(1))
        return ask.function(ask.chain(of_execution, frame))

    def _taken(self, reference: Any) -> Any:
        """A handle that takes what a reference holds, and leaves null in its place."""
        take = self._ask.method(_REFERENCE, "getAndSet", _OBJECT)
        return self._ask.fed_by(take.bindTo(reference), 0, self._ask.constant(None))

    def _dataset(self, encoder: Any) -> Any:
        return self._ask.construct("ClassicDataset", "QueryExecution", (_ENCODER, encoder))
