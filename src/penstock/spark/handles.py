"""Functions for Scala, put together inside the JVM out of method handles.

Spark's transformations take functions. One written in Python would be called back over a socket
for every node of a plan; one made of method handles runs in the JVM and costs nothing to speak of.
"""

from __future__ import annotations

from typing import Any

from penstock.spark.gateway import Jvm

_OBJECT = "java.lang.Object"


class Handles:
    """Makes functions. Each is meant to be made once and used for the life of a query."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._invoke = jvm.view.java.lang.invoke
        self._lookup = self._invoke.MethodHandles.publicLookup()
        self._object = jvm.java_class(_OBJECT)
        self._unary = self._type(self._object, self._object)

    def substitution(self, java_map: Any) -> Any:
        """A total PartialFunction: what the map has for a thing, else the thing itself.

        An IdentityHashMap tells things apart by who they are, a HashMap by what they equal. The
        map may be changed between uses.
        """
        map_type = self._jvm.java_class("java.util.Map")
        get_or_default = self._lookup.findVirtual(
            map_type, "getOrDefault", self._type(self._object, self._object, self._object)
        )
        twice = self._jvm.array(self._jvm.view.int, [0, 0])
        handle = self._invoke.MethodHandles.permuteArguments(
            get_or_default.bindTo(java_map), self._unary, twice
        )
        return self._total(handle)

    def collector(self, class_name: str) -> Any:
        """A PartialFunction defined on the instances of a class, which it returns."""
        some_type = self._jvm.java_class("scala.Some")
        void = self._jvm.view.java.lang.Void.TYPE
        make_some = self._lookup.findConstructor(some_type, self._type(void, self._object))
        handles = self._invoke.MethodHandles
        make_none = handles.dropArguments(
            handles.constant(self._object, self._jvm.none), 0, self._class_array(self._object)
        )
        chosen = handles.guardWithTest(
            self._is_instance(class_name), make_some.asType(self._unary), make_none
        )
        return self._jvm.module("scala.Function").unlift(self._function1(chosen))

    def with_stream(self, stream: Any) -> Any:
        """A total PartialFunction: plan leaves that can name their stream get this one."""
        aware = self._jvm.java_class("StreamSourceAwareLogicalPlan")
        plan_type = self._jvm.java_class("org.apache.spark.sql.catalyst.plans.logical.LogicalPlan")
        stream_type = self._jvm.java_class(
            "org.apache.spark.sql.connector.read.streaming.SparkDataStream"
        )
        with_stream = self._lookup.findVirtual(
            aware, "withStream", self._type(plan_type, stream_type)
        )
        handles = self._invoke.MethodHandles
        bound = handles.insertArguments(
            with_stream, 1, self._jvm.array(self._jvm.view.Object, [stream])
        ).asType(self._unary)
        return self._total(
            handles.guardWithTest(
                self._is_instance("StreamSourceAwareLogicalPlan"),
                bound,
                handles.identity(self._object),
            )
        )

    def add_batch(self, sink: Any, batch_id: Any, dataset: Any) -> Any:
        """A Function0 that calls `sink.addBatch` with what the two AtomicReferences hold."""
        sink_type = self._jvm.java_class("V1Sink")
        dataset_type = self._jvm.java_class("org.apache.spark.sql.Dataset")
        long_type = self._jvm.view.java.lang.Long.TYPE
        void = self._jvm.view.java.lang.Void.TYPE
        call = self._lookup.findVirtual(
            sink_type, "addBatch", self._type(void, long_type, dataset_type)
        ).bindTo(sink)
        handles = self._invoke.MethodHandles
        with_id = handles.collectArguments(
            call, 0, self._getter(batch_id).asType(self._type(long_type))
        )
        nullary = handles.collectArguments(
            with_id, 0, self._getter(dataset).asType(self._type(dataset_type))
        )
        return self._function0(nullary.asType(self._type(self._object)))

    def nothing(self) -> Any:
        """A Function0 that gives null: what to say instead of a value that is not there."""
        return self._function0(self._invoke.MethodHandles.constant(self._object, None))

    def no_op_function2(self) -> Any:
        """A Function2 that does nothing."""
        unit = self._jvm.view.scala.runtime.BoxedUnit.UNIT
        handles = self._invoke.MethodHandles
        constant = handles.dropArguments(
            handles.constant(self._object, unit),
            0,
            self._class_array(self._object, self._object),
        )
        return self._instance("scala.Function2", constant)

    def _getter(self, reference: Any) -> Any:
        reference_type = self._jvm.java_class("java.util.concurrent.atomic.AtomicReference")
        get = self._lookup.findVirtual(reference_type, "get", self._type(self._object))
        return get.bindTo(reference)

    def _is_instance(self, class_name: str) -> Any:
        boolean = self._jvm.view.java.lang.Boolean.TYPE
        is_instance = self._lookup.findVirtual(
            self._jvm.java_class("java.lang.Class"), "isInstance", self._type(boolean, self._object)
        )
        return is_instance.bindTo(self._jvm.java_class(class_name))

    def _total(self, handle: Any) -> Any:
        return self._jvm.module("scala.PartialFunction").fromFunction(self._function1(handle))

    def _function0(self, handle: Any) -> Any:
        return self._instance("scala.Function0", handle)

    def _function1(self, handle: Any) -> Any:
        return self._instance("scala.Function1", handle)

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._invoke.MethodHandleProxies.asInterfaceInstance(
            self._jvm.java_class(interface), handle
        )

    def _type(self, returns: Any, *parameters: Any) -> Any:
        return self._invoke.MethodType.methodType(returns, self._class_array(*parameters))

    def _class_array(self, *classes: Any) -> Any:
        return self._jvm.array(self._jvm.view.java.lang.Class, classes)
