"""The JVM of a Spark session: classes by name, and conversion of Scala values.

One object per gateway. Look-ups are cached, because each one is a py4j round trip.
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
    """A class that caches its static members: py4j looks them up in the JVM at every access."""

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
        """The `Jvm` of this session's gateway."""
        gateway = spark.sparkContext._gateway
        found = _instances.get(gateway)
        if found is None:
            found = _instances[gateway] = Jvm(gateway)
        return found

    @property
    def line(self) -> SparkLine:
        """The Spark line of this JVM; the newest known line if the version is not known."""
        if self._line is None:
            version = self.module("org.apache.spark.package").SPARK_VERSION()
            self._line = find_line(version) or NEWEST
        return self._line

    # Classes. A name is a key of the table of internal classes, or a full class name.

    def cls(self, name: str) -> Any:
        """A class, for its constructor and its static members. Both are cached."""
        found = self._classes.get(name)
        if found is None:
            found = _KnownClass(self._full(name), self.gateway._gateway_client)
            self._classes[name] = found
        return found

    def new(self, class_name: str, /, **keywords: Any) -> Any:
        """Create an object of an internal class with the constructor that the table lists."""
        return self.cls(class_name)(*self.line.classes[class_name].arguments(keywords))

    def call(self, target: Any, class_name: str, method: str, /, **keywords: Any) -> Any:
        """Call a method of an object of an internal class with the parameters that the table lists.

        For a method whose parameters differ between Spark lines.
        """
        arguments = self.line.classes[class_name].arguments(keywords, method)
        return getattr(target, method)(*arguments)

    @property
    def java(self) -> JavaSide:
        """Penstock's Java classes, compiled on first access."""
        return self._java_side or self.compile_java()

    def compile_java(self) -> JavaSide:
        """Compile the Java classes once. Raises UnsupportedError if this Spark lacks a member."""
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
        """Whether an object is an instance of a class. False if this Spark lacks the class."""
        if not isinstance(obj, JavaObject):
            return False
        try:
            found = self.java_class(name)
        except Py4JJavaError:
            return False
        return bool(found.isInstance(obj))

    def call_default(self, interface: str, method: str, obj: Any) -> Any:
        """Call a method without arguments that `obj` may only inherit from an interface.

        py4j does not find default methods, so the method is looked up in the interface.
        """
        found = self._default_methods.get((interface, method))
        if found is None:
            no_classes = self.array(self.cls("java.lang.Class"), ())
            found = self.java_class(interface).getMethod(method, no_classes)
            self._default_methods[interface, method] = found
        return found.invoke(obj, self.no_arguments)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of `make()`, cached for this JVM under `name`."""
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
        """A Scala Option: `Some(value)`, or Scala's `None` for None."""
        return self.none if value is None else self._some(value)

    @staticmethod
    def from_option(option: Any) -> Any | None:
        return option.get() if option.isDefined() else None

    def scala_map(self, mapping: Mapping[str, str]) -> Any:
        """An immutable Scala Map of strings."""
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
