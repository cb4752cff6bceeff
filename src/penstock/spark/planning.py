"""Spark's execution of a batch, made out of the query's plan."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from penstock.engine.seam import BatchRequest
from penstock.spark.batch_functions import BatchFunctions
from penstock.spark.batch_time import BatchTime
from penstock.spark.session import SparkStreamSession


class BatchPlanner:
    """Makes the execution of each batch of a query.

    Spark analyzes the plan of a batch anew, though the query's was analyzed when it started and
    all that a batch changes is the leaves. Mostly the analyzer finds nothing to do, and whether it
    does depends on the shape of the plan: which leaves have data. So the first batch of each shape
    is analyzed as ever; later ones only if the first one's plan came out changed.
    """

    def __init__(
        self,
        session: SparkStreamSession,
        write: Any,
        replace: Any,
        batch_time: BatchTime,
        fixed: Mapping[int, Sequence[Any]],
    ) -> None:
        """`write` is the query's plan, `replace` the function that puts data in its leaves' place.

        `fixed` are those arguments of an IncrementalExecution that all batches share: runs of
        them, by the position of each one's first.
        """
        self._session = session
        self._write = write
        self._replacing = [("transform", replace), *batch_time.replacing]
        self._batch_time = batch_time
        self._fixed = fixed
        self._analyzes: dict[Hashable, bool] = {}
        self._make: dict[bool, Any] = {}

    def execution(self, request: BatchRequest, shape: Hashable) -> Any:
        """The execution of a batch whose leaves are replaced by what `replace` knows now."""
        self._batch_time.set(request.metadata.batch_timestamp_ms)
        analyze = self._analyzes.get(shape)
        if analyze is None:
            return self.execution_of(self._plan(request.batch_id), request)
        make = self._make.get(analyze)
        if make is None:
            make = self._make[analyze] = BatchFunctions(self._session.jvm).execution(
                self._write, self._replacing, self._fixed, analyze=analyze
            )
        return make.apply(*self._facts(request))

    def learn(self, shape: Hashable, execution: Any) -> None:
        """Note what analysis did to the first batch of a shape. It must have been planned."""
        if shape not in self._analyzes:
            unchanged = execution.analyzed().fastEquals(execution.logical())
            self._analyzes[shape] = not unchanged

    def execution_of(self, plan: Any, request: BatchRequest) -> Any:
        """The execution of any plan without streaming leaves as if it were the batch's."""
        jvm, fixed = self._session.jvm, self._fixed
        batch_id, previous, metadata, is_first = self._facts(request)
        varying = {1: plan, 6: batch_id, 7: jvm.option(previous), 8: metadata, 10: is_first}
        given = {first + n: value for first, run in fixed.items() for n, value in enumerate(run)}
        arguments = sorted({**varying, **given}.items())
        return jvm.cls("IncrementalExecution")(*(argument for _, argument in arguments))

    def _plan(self, batch_id: int) -> Any:
        plan = self._write
        for method, function in self._replacing:
            plan = getattr(plan, method)(function)
        return plan.withNewBatchId(batch_id)

    def _facts(self, request: BatchRequest) -> tuple[Any, ...]:
        previous = request.previous_metadata
        return (
            request.batch_id,
            None if previous is None else self._session.jvm_metadata(previous),
            self._session.jvm_metadata(request.metadata),
            request.is_first_in_run,
        )
