"""Functions for Scala, put together inside the JVM out of method handles.

Spark's transformations take functions. One written in Python would be called back over a socket
for every node of a plan; one made of method handles runs in the JVM and costs nothing to speak of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.spark.gateway import Jvm

_OBJECT = "java.lang.Object"
_INVOKE = "java.lang.invoke"
_SCAN_PARTS = (
    "StreamingDataSourceV2Relation",
    "org.apache.spark.sql.connector.read.Scan",
    "scala.collection.immutable.Seq",
    "org.apache.spark.sql.connector.read.streaming.SparkDataStream",
)


class Handles:
    """Makes functions. Each is meant to be made once and used for the life of a query.

    Making one takes many round trips, so what goes into several is remembered: use `of`.
    """

    @classmethod
    def of(cls, jvm: Jvm) -> Handles:
        """The one for this JVM."""
        made: Handles = jvm.once("handles", lambda: cls(jvm))
        return made

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._handles = jvm.cls(f"{_INVOKE}.MethodHandles")
        self._lookup = self._handles.publicLookup()
        self._types: dict[tuple[int, ...], tuple[Any, Any]] = {}
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
        twice = self._jvm.array(self._jvm.cls("int"), [0, 0])
        handle = self._handles.permuteArguments(get_or_default.bindTo(java_map), self._unary, twice)
        return self._total(handle)

    def collector(self, class_name: str, answer: Any = None) -> Any:
        """A PartialFunction over the instances of a class: what a handle answers of each.

        Without an answer it gives the instance itself.
        """
        some = self._jvm.once("some", lambda: self.construct("scala.Some", _OBJECT))
        if answer is not None:
            return self.chooser(class_name, self.chain(answer, some))
        return self._jvm.once(f"all {class_name}", lambda: self.chooser(class_name, some))

    def chooser(self, class_name: str, option: Any, *, where: Any = None) -> Any:
        """A PartialFunction over the instances of a class: what is in the Option of each.

        `where`, a handle too, says which instances are asked.
        """
        handles = self._handles
        none = handles.dropArguments(
            handles.constant(self._object, self._jvm.none), 0, self._class_array(self._object)
        )
        if where is not None:
            option = handles.guardWithTest(where, option, none)
        chosen = handles.guardWithTest(self._is_instance(class_name), option, none)
        return self._jvm.module("scala.Function").unlift(self.function(chosen))

    # Handles, to be put together: each takes an object and gives one.

    def call(self, owner: str, method: str, *arguments: tuple[str, Any]) -> Any:
        """A handle that calls a method of its argument; the arguments, by type, are fixed."""
        types = [self._jvm.java_class(name) for name, _ in arguments]
        found = self._jvm.java_class(owner).getMethod(method, self._class_array(*types))
        return self._with_arguments(self._lookup.unreflect(found), arguments)

    def method_of(self, obj: Any, method: str, takes: str, *arguments: tuple[str, Any]) -> Any:
        """A handle that hands its argument to a method of a given object, then fixed ones."""
        types = [self._jvm.java_class(name) for name in (takes, *(name for name, _ in arguments))]
        found = obj.getClass().getMethod(method, self._class_array(*types))
        bound = self._lookup.unreflect(found).bindTo(obj)
        return self._with_arguments(bound, arguments)

    def construct(self, class_name: str, takes: str) -> Any:
        """A handle that makes an object of a class out of its argument."""
        void = self._jvm.cls("java.lang.Void").TYPE
        argument = self._jvm.java_class(takes)
        return self._lookup.findConstructor(
            self._jvm.java_class(class_name), self._type(void, argument)
        ).asType(self._unary)

    def chain(self, first: Any, *others: Any) -> Any:
        """A handle that asks one after the other, each of what the one before gave."""
        for other in others:
            first = self._handles.filterReturnValue(first, other)
        return first

    def line(self, *answers: Any) -> Any:
        """A handle that gives several answers of one thing as a text, parted by tabs."""
        handles = self._handles
        count = len(answers)
        void = self._jvm.cls("java.lang.Void").TYPE
        tuple_type = self._jvm.java_class(f"scala.Tuple{count}")
        make = self._lookup.findConstructor(tuple_type, self._type(void, *[self._object] * count))
        asked = handles.filterArguments(
            make, 0, self._jvm.array(self._jvm.cls(f"{_INVOKE}.MethodHandle"), answers)
        )
        of_one = handles.permuteArguments(
            asked.asType(asked.type().changeReturnType(self._object)),
            self._unary,
            self._jvm.array(self._jvm.cls("int"), [0] * count),
        )
        return self.chain(
            of_one, self.call("scala.Product", "productIterator"), self._joined_by("\t")
        )

    def equal_to(self, value: Any, answer: Any) -> Any:
        """A handle for `where`: whether an answer equals a value."""
        boolean = self._jvm.cls("java.lang.Boolean").TYPE
        equals = self._lookup.findVirtual(
            self._object, "equals", self._type(boolean, self._object)
        ).bindTo(value)
        return self._handles.filterReturnValue(answer, equals)

    def lines(self, seq: Any) -> Any:
        """A handle that gives the elements of a Seq as lines of a text."""
        return self.chain(seq, self._joined_by("\n"))

    def function(self, handle: Any) -> Any:
        """A handle as a Function1; `apply` is then one round trip."""
        return self._instance("scala.Function1", handle)

    def _joined_by(self, separator: str) -> Any:
        return self.call(
            "scala.collection.IterableOnceOps", "mkString", ("java.lang.String", separator)
        )

    # Functions for one purpose.

    def with_stream(self, stream: Any) -> Any:
        """A total PartialFunction: plan leaves that can name their stream get this one."""
        aware = self._jvm.java_class("StreamSourceAwareLogicalPlan")
        plan_type = self._jvm.java_class("LogicalPlan")
        stream_type = self._jvm.java_class(
            "org.apache.spark.sql.connector.read.streaming.SparkDataStream"
        )
        with_stream = self._lookup.findVirtual(
            aware, "withStream", self._type(plan_type, stream_type)
        )
        handles = self._handles
        bound = handles.insertArguments(
            with_stream, 1, self._jvm.array(self._jvm.cls("java.lang.Object"), [stream])
        ).asType(self._unary)
        return self._total(
            handles.guardWithTest(
                self._is_instance("StreamSourceAwareLogicalPlan"),
                bound,
                handles.identity(self._object),
            )
        )

    def put_scan(self, java_map: Any, node: Any, scan: Any, parts: Sequence[Any]) -> Any:
        """A Function2 of two offsets: puts the scan between them into a map, for a leaf.

        `parts` are the scan's own, in the order of its constructor.
        """
        handles = self._handles
        option = self._jvm.java_class("scala.Option")
        types = [self._jvm.java_class(name) for name in _SCAN_PARTS]
        copy = scan.getClass().getMethod("copy", self._class_array(*types, option, option))
        between = handles.insertArguments(
            self._lookup.unreflect(copy).bindTo(scan),
            0,
            self._jvm.array(self._jvm.cls("java.lang.Object"), parts),
        )
        some = self.construct("scala.Some", _OBJECT).asType(self._type(option, self._object))
        between = handles.filterArguments(
            between, 0, self._jvm.array(self._jvm.cls(f"{_INVOKE}.MethodHandle"), [some, some])
        )
        put = self._lookup.findVirtual(
            self._jvm.java_class("java.util.Map"),
            "put",
            self._type(self._object, self._object, self._object),
        ).bindTo(java_map)
        put = handles.insertArguments(
            put, 0, self._jvm.array(self._jvm.cls("java.lang.Object"), [node])
        )
        # What was there before is of no interest, and would be one more thing to release.
        void = self._jvm.cls("java.lang.Void").TYPE
        put = put.asType(self._type(void, self._object)).asType(self._unary)
        binary = self._type(self._object, self._object, self._object)
        return self._instance("scala.Function2", self.chain(between.asType(binary), put))

    def add_batch(self, sink: Any, batch_id: Any, dataset: Any) -> Any:
        """A Function0 that calls `sink.addBatch` with what the two AtomicReferences hold."""
        sink_type = self._jvm.java_class("V1Sink")
        dataset_type = self._jvm.java_class("org.apache.spark.sql.Dataset")
        long_type = self._jvm.cls("java.lang.Long").TYPE
        void = self._jvm.cls("java.lang.Void").TYPE
        call = self._lookup.findVirtual(
            sink_type, "addBatch", self._type(void, long_type, dataset_type)
        ).bindTo(sink)
        handles = self._handles
        with_id = handles.collectArguments(
            call, 0, self._getter(batch_id).asType(self._type(long_type))
        )
        nullary = handles.collectArguments(
            with_id, 0, self._getter(dataset).asType(self._type(dataset_type))
        )
        return self._function0(nullary.asType(self._type(self._object)))

    def no_op_function2(self) -> Any:
        """A Function2 that does nothing."""
        unit = self._jvm.cls("scala.runtime.BoxedUnit").UNIT
        handles = self._handles
        constant = handles.dropArguments(
            handles.constant(self._object, unit),
            0,
            self._class_array(self._object, self._object),
        )
        return self._instance("scala.Function2", constant)

    def _with_arguments(self, handle: Any, arguments: Sequence[tuple[str, Any]]) -> Any:
        """The handle with all arguments but the first fixed."""
        if arguments:
            values = self._jvm.array(
                self._jvm.cls("java.lang.Object"), [value for _, value in arguments]
            )
            handle = self._handles.insertArguments(handle, 1, values)
        return handle.asType(self._unary)

    def _getter(self, reference: Any) -> Any:
        reference_type = self._jvm.java_class("java.util.concurrent.atomic.AtomicReference")
        get = self._lookup.findVirtual(reference_type, "get", self._type(self._object))
        return get.bindTo(reference)

    def _is_instance(self, class_name: str) -> Any:
        boolean = self._jvm.cls("java.lang.Boolean").TYPE
        is_instance = self._lookup.findVirtual(
            self._jvm.java_class("java.lang.Class"), "isInstance", self._type(boolean, self._object)
        )
        return is_instance.bindTo(self._jvm.java_class(class_name))

    def _total(self, handle: Any) -> Any:
        return self._jvm.module("scala.PartialFunction").fromFunction(self.function(handle))

    def _function0(self, handle: Any) -> Any:
        return self._instance("scala.Function0", handle)

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._jvm.cls(f"{_INVOKE}.MethodHandleProxies").asInterfaceInstance(
            self._jvm.java_class(interface), handle
        )

    def _type(self, returns: Any, *parameters: Any) -> Any:
        classes = (returns, *parameters)
        key = tuple(map(id, classes))
        if key not in self._types:
            make = self._jvm.cls(f"{_INVOKE}.MethodType").methodType
            # The classes are kept too, so that no other can come to have their ids.
            self._types[key] = make(returns, self._class_array(*parameters)), classes
        return self._types[key][0]

    def _class_array(self, *classes: Any) -> Any:
        return self._jvm.array(self._jvm.cls("java.lang.Class"), classes)
