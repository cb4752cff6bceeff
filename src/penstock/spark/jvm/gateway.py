"""The JVM behind a Spark session: classes by name, and Scala's values.

One object per gateway. Whatever is looked up once is kept, because every look-up is a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.spark.jvm.java_side import JavaSide, joined
from penstock.spark.jvm.lines import NEWEST, SparkLine, find_line

_instances: WeakKeyDictionary[Any, Jvm]

_PRIMITIVES = {
    "boolean": "java.lang.Boolean",
    "long": "java.lang.Long",
    "void": "java.lang.Void",
}


class _KnownClass(JavaClass):  # type: ignore[misc]  # py4j has no types
    """A class whose static members are looked up once: py4j asks the JVM at every mention."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        self.__dict__[name] = found
        return found


class Jvm:
    """Access to the JVM. Everything it returns is a py4j object unless it says otherwise."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self._line: SparkLine | None = None
        self._classes: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._java_classes: dict[str, Any] = {}
        self._default_methods: dict[tuple[str, str], Any] = {}
        self._made: dict[str, Any] = {}
        self.python_utils = self.cls("org.apache.spark.api.python.PythonUtils")
        self.none = self.module("scala.None")
        self.empty_seq = self.seq([])
        self._some = self.cls("scala.Some")
        self.no_arguments = self.array(self.cls("java.lang.Object"), ())
        self._java_side: JavaSide | None = None
        self._java_lock = Lock()

    @staticmethod
    def of(spark: SparkSession) -> Jvm:
        """The one for this session's gateway."""
        gateway = spark.sparkContext._gateway
        found = _instances.get(gateway)
        if found is None:
            found = _instances[gateway] = Jvm(gateway)
        return found

    @property
    def line(self) -> SparkLine:
        """The line of the Spark in this JVM; the newest that is known, if it is another."""
        if self._line is None:
            version = self.module("org.apache.spark.package").SPARK_VERSION()
            self._line = find_line(version) or NEWEST
        return self._line

    # Classes. A name is one of the table of internals, or a full class name.

    def cls(self, name: str) -> Any:
        """A class, for its constructor and its static members, each of which is looked up once."""
        found = self._classes.get(name)
        if found is None:
            found = _KnownClass(self._full(name), self.gateway._gateway_client)
            self._classes[name] = found
        return found

    def new(self, class_name: str, /, **keywords: Any) -> Any:
        """An object of an internal class, made by the constructor that the table lists."""
        return self.cls(class_name)(*self.line.classes[class_name].arguments(keywords))

    def call(self, target: Any, class_name: str, method: str, /, **keywords: Any) -> Any:
        """Call a method of an object of an internal class with the parameters that the table lists.

        For a method whose parameters are not the same in all lines.
        """
        arguments = self.line.classes[class_name].arguments(keywords, method)
        return getattr(target, method)(*arguments)

    @property
    def java(self) -> JavaSide:
        """The steps that are written in Java, compiled when they are first asked for."""
        return self._java_side or self.compile_java()

    def compile_java(self) -> JavaSide:
        """Compile them now, unless that is done. UnsupportedError if they do not fit this Spark."""
        with self._java_lock:
            if self._java_side is None:
                self._java_side = JavaSide(self)
            return self._java_side

    def module(self, name: str) -> Any:
        """The Scala object of that name."""
        found = self._modules.get(name)
        if found is None:
            found = getattr(JavaClass(self._full(name) + "$", self._client), "MODULE$")
            self._modules[name] = found
        return found

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class`. Raises a Py4JJavaError if there is none of that name.

        The class of a Scala object is the object's name with a `$`.
        """
        found = self._java_classes.get(name)
        if found is None and name in _PRIMITIVES:
            found = self._java_classes[name] = self.cls(_PRIMITIVES[name]).TYPE
        elif found is None:
            loader = self.cls("java.lang.Thread").currentThread().getContextClassLoader()
            found = self.cls("java.lang.Class").forName(self._full(name), False, loader)
            self._java_classes[name] = found
        return found

    def is_instance(self, obj: Any, name: str) -> bool:
        """Whether an object is of a class. It is not of one that this Spark does not have."""
        if not isinstance(obj, JavaObject):
            return False
        try:
            found = self.java_class(name)
        except Py4JJavaError:
            return False
        return bool(found.isInstance(obj))

    def call_default(self, interface: str, method: str, obj: Any) -> Any:
        """Call a method without arguments that `obj` may only inherit from an interface.

        py4j does not find the default methods of interfaces; the interface itself does.
        """
        found = self._default_methods.get((interface, method))
        if found is None:
            no_classes = self.array(self.cls("java.lang.Class"), ())
            found = self.java_class(interface).getMethod(method, no_classes)
            self._default_methods[interface, method] = found
        return found.invoke(obj, self.no_arguments)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` makes, made once for this JVM under a name."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make()
        return found

    @property
    def _client(self) -> Any:
        return self.gateway._gateway_client

    def _full(self, name: str) -> str:
        if "." in name:
            return name
        internal = self.line.classes.get(name.removesuffix("$"))
        return internal.name + ("$" if name.endswith("$") else "") if internal else name

    # Values.

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala Seq of Python values or JVM objects."""
        return self.python_utils.toSeq(list(items))

    @staticmethod
    def to_list(seq: Any) -> list[Any]:
        """The elements of a Scala Seq."""
        return [seq.apply(index) for index in range(seq.size())]

    def some(self, value: Any) -> Any:
        return self._some(value)

    def option(self, value: Any | None) -> Any:
        """Scala's Option of a value: None for None."""
        return self.none if value is None else self._some(value)

    @staticmethod
    def from_option(option: Any) -> Any | None:
        return option.get() if option.isDefined() else None

    def scala_map(self, mapping: Mapping[str, str]) -> Any:
        """An immutable Scala Map of texts."""
        return self.java.start.map(joined(text for item in mapping.items() for text in item))

    def uuid(self, text: str) -> Any:
        return self.cls("java.util.UUID").fromString(text)

    def array(self, java_class: Any, items: Iterable[Any]) -> Any:
        """A Java array."""
        values = list(items)
        array = self.gateway.new_array(java_class, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array


_instances = WeakKeyDictionary()
