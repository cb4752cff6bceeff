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


class Handles:
    """Makes functions. Each is meant to be made once and used for the life of a query.

    Making one takes many round trips, so what can go into several is remembered: use `of`.
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
        self._object = jvm.java_class(_OBJECT)
        self._unary = self._type(_OBJECT, _OBJECT)

    def substitution(self, java_map: Any) -> Any:
        """A total PartialFunction: what the map has for a thing, else the thing itself.

        An IdentityHashMap tells things apart by who they are, a HashMap by what they equal. The
        map may be changed between uses.
        """
        get = self.method("java.util.Map", "getOrDefault", _OBJECT, _OBJECT).bindTo(java_map)
        return self.total(self.reordered(get, 1, (0, 0)))

    def collector(self, class_name: str, answer: Any = None) -> Any:
        """A PartialFunction over the instances of a class: what a handle answers of each.

        Without an answer it gives the instance itself.
        """
        some = self.construct("scala.Some", _OBJECT)
        if answer is not None:
            return self.chooser(class_name, self.chain(answer, some))
        return self._jvm.once(f"all {class_name}", lambda: self.chooser(class_name, some))

    def chooser(self, class_name: str, option: Any, *, where: Any = None) -> Any:
        """A PartialFunction over the instances of a class: what is in the Option of each.

        `where`, a handle too, says which instances are asked.
        """
        none = self._always("none", self._jvm.none)
        if where is not None:
            option = self.choose(where, option, none)
        chosen = self.choose(self.is_instance(class_name), option, none)
        return self._jvm.module("scala.Function").unlift(self.function(chosen))

    # Handles, to be put together: each takes an object and gives one.

    def call(self, owner: str, method: str, *arguments: tuple[str, Any]) -> Any:
        """A handle that calls a method of its argument; the arguments, by type, are fixed."""
        types = [name for name, _ in arguments]
        return self._with_arguments(("method", owner, method, *types), arguments)

    def method_of(self, obj: Any, method: str, takes: str, *arguments: tuple[str, Any]) -> Any:
        """A handle that hands its argument to a method of a given object, then fixed ones."""
        owner = str(obj.getClass().getName())
        found = self.method(owner, method, takes, *(name for name, _ in arguments)).bindTo(obj)
        return self._fix_all_but_one(found, arguments).asType(self._unary)

    def construct(self, class_name: str, takes: str, *arguments: tuple[str, Any]) -> Any:
        """A handle that makes an object of a class out of its argument, then fixed ones."""
        types = [takes, *(name for name, _ in arguments)]
        return self._with_arguments(("constructor", class_name, *types), arguments)

    def identity(self) -> Any:
        """A handle that gives its argument back."""
        return self._jvm.once("identity", lambda: self._handles.identity(self._object))

    def null(self) -> Any:
        """A handle that answers null, whatever it is asked of."""
        return self._always("null", None)

    def always(self, value: Any) -> Any:
        """A handle of one argument that always gives this."""
        return self._handles.dropArguments(self.constant(value), 0, self._class_array(_OBJECT))

    def chain(self, first: Any, *others: Any) -> Any:
        """A handle that asks one after the other, each of what the one before gave."""
        for other in others:
            first = self._handles.filterReturnValue(first, other)
        return first

    def after(self, first: Any, answer: Any) -> Any:
        """A handle that asks one thing, lets it be, and answers another, both of its argument."""
        return self._handles.foldArguments(answer, self.silent(first))

    def choose(self, where: Any, then: Any, otherwise: Any) -> Any:
        """A handle that answers one thing or another, depending on a question (see `equal_to`)."""
        return self._handles.guardWithTest(where, then, otherwise)

    def of_one(self, handle: Any, *answers: Any) -> Any:
        """A handle of one thing: answers of it are the arguments of one that takes several."""
        count = len(answers)
        asked = self.filtered(handle.asType(self.generic(count)), 0, *answers)
        return self.reordered(asked, 1, (0,) * count)

    def line(self, *answers: Any) -> Any:
        """A handle that gives several answers of one thing as a text, parted by tabs."""
        make = self.constructor(f"scala.Tuple{len(answers)}", *[_OBJECT] * len(answers))
        return self.chain(
            self.of_one(make, *answers),
            self.call("scala.Product", "productIterator"),
            self.joined_by("\t"),
        )

    def equal_to(self, value: Any, answer: Any) -> Any:
        """A question for `where`: whether an answer equals a value."""
        equals = self.method(_OBJECT, "equals", _OBJECT).bindTo(value)
        return self._handles.filterReturnValue(answer, equals)

    def lines(self, seq: Any) -> Any:
        """A handle that gives the elements of a Seq as lines of a text."""
        return self.chain(seq, self.joined_by("\n"))

    def function(self, handle: Any, count: int = 1) -> Any:
        """A handle as a Scala function of so many objects; `apply` is then one round trip."""
        return self._instance(f"scala.Function{count}", handle.asType(self.generic(count)))

    def total(self, handle: Any) -> Any:
        """A handle as a PartialFunction that knows an answer to everything."""
        return self._jvm.module("scala.PartialFunction").fromFunction(self.function(handle))

    def put(self, java_map: Any, key: Any) -> Any:
        """A handle that puts its argument into a map and answers null."""
        put = self.method("java.util.Map", "put", _OBJECT, _OBJECT).bindTo(java_map)
        # What was there before is of no interest, and would be one more thing to release.
        return self.silent(self.fix(put, 0, key)).asType(self._unary)

    def joined_by(self, separator: str) -> Any:
        """A handle that gives the elements of a collection as one text."""
        return self.call(
            "scala.collection.IterableOnceOps", "mkString", ("java.lang.String", separator)
        )

    def no_op_function2(self) -> Any:
        """A Function2 that does nothing."""
        unit = self._jvm.cls("scala.runtime.BoxedUnit").UNIT
        handles = self._handles
        constant = handles.dropArguments(
            handles.constant(self._object, unit),
            0,
            self._class_array(_OBJECT, _OBJECT),
        )
        return self._instance("scala.Function2", constant)

    # Handles of several arguments.

    def constructor(self, class_name: str, *takes: str) -> Any:
        """A handle that makes an object of a class."""
        return self._found("constructor", class_name, *takes)

    def constant(self, value: Any) -> Any:
        """A handle of no arguments that always gives this."""
        return self._handles.constant(self._object, value)

    def only_constructor(self, class_name: str) -> Any:
        """The same for a class that has one constructor, whatever it takes."""
        return self._found("only constructor", class_name)

    def fix(self, handle: Any, position: int, *values: Any) -> Any:
        """A handle without the arguments from a position on that are always these, none null."""
        array = self._jvm.cls("java.util.List").of(*values).toArray()
        return self._handles.insertArguments(handle, position, array)

    def filtered(self, handle: Any, position: int, *filters: Any) -> Any:
        """A handle whose arguments from a position on each pass through another handle."""
        return self._handles.filterArguments(handle, position, self._array_of_handles(*filters))

    def optional(self, handle: Any, position: int) -> Any:
        """A handle that may be given null, or a value, where it takes an Option."""
        of_nullable = self._jvm.once("option", lambda: self._array_of_handles(self._option()))
        return self._handles.filterArguments(handle, position, of_nullable)

    def fed_by(self, handle: Any, position: int, maker: Any) -> Any:
        """A handle one of whose arguments another makes, out of arguments put in its place."""
        return self._handles.collectArguments(handle, position, maker)

    def reordered(self, handle: Any, count: int, order: tuple[int, ...]) -> Any:
        """A handle that takes so many objects and hands on the one of each number in `order`."""
        numbers = self._jvm.once(
            f"numbers {order}", lambda: self._jvm.array(self._jvm.cls("int"), order)
        )
        generic = handle.asType(self.generic(len(order)))
        return self._handles.permuteArguments(generic, self.generic(count), numbers)

    def method(self, owner: str, name: str, *takes: str) -> Any:
        """A handle that calls a method of its first argument."""
        return self._found("method", owner, name, *takes)

    def silent(self, handle: Any) -> Any:
        """A handle that does the same and answers nothing."""
        return handle.asType(handle.type().changeReturnType(self._jvm.java_class("void")))

    def generic(self, count: int) -> Any:
        """The type of a handle that takes so many objects and gives one."""
        return self._type(_OBJECT, *[_OBJECT] * count)

    # What is looked up once.

    def _found(self, *key: str) -> Any:
        """A handle of a member of a class: what kind of member, the class, and the rest."""
        return self._jvm.once(" ".join(key), lambda: self._find(*key))

    def _find(self, kind: str, owner: str, *names: str) -> Any:
        java_class = self._jvm.java_class(owner)
        match kind:
            case "method":
                method, *takes = names
                found = java_class.getMethod(method, self._class_array(*takes))
                return self._lookup.unreflect(found)
            case "constructor":
                return self._lookup.findConstructor(java_class, self._type("void", *names))
            case _:
                [found] = java_class.getConstructors()
                return self._lookup.unreflectConstructor(found)

    def _with_arguments(self, key: tuple[str, ...], arguments: Sequence[tuple[str, Any]]) -> Any:
        """A member's handle with all arguments but the first fixed, from an object to one."""
        if not arguments:
            unary = " ".join(("unary", *key))
            return self._jvm.once(unary, lambda: self._found(*key).asType(self._unary))
        return self._fix_all_but_one(self._found(*key), arguments).asType(self._unary)

    def _fix_all_but_one(self, handle: Any, arguments: Sequence[tuple[str, Any]]) -> Any:
        return self.fix(handle, 1, *(value for _, value in arguments)) if arguments else handle

    def _always(self, name: str, value: Any) -> Any:
        """The same as `always`, made once for this JVM under a name."""
        return self._jvm.once(f"always {name}", lambda: self.always(value))

    def _option(self) -> Any:
        option = self._jvm.java_class("scala.Option")
        return self._lookup.findStatic(option, "apply", self._type("scala.Option", _OBJECT))

    def is_instance(self, class_name: str) -> Any:
        """A question for `where`: whether a thing is of a class."""
        is_instance = self.method("java.lang.Class", "isInstance", _OBJECT)
        return self._jvm.once(
            f"is {class_name}", lambda: is_instance.bindTo(self._jvm.java_class(class_name))
        )

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._jvm.cls(f"{_INVOKE}.MethodHandleProxies").asInterfaceInstance(
            self._jvm.java_class(interface), handle
        )

    def _type(self, *names: str) -> Any:
        """The type of a handle: what it gives, then what it takes."""
        make = self._jvm.cls(f"{_INVOKE}.MethodType").methodType
        returns, *takes = names
        return self._jvm.once(
            f"type {names}",
            lambda: make(self._jvm.java_class(returns), self._class_array(*takes)),
        )

    def _class_array(self, *names: str) -> Any:
        classes = [self._jvm.java_class(name) for name in names]
        return self._jvm.array(self._jvm.cls("java.lang.Class"), classes)

    def _array_of_handles(self, *handles: Any) -> Any:
        return self._jvm.array(self._jvm.cls(f"{_INVOKE}.MethodHandle"), handles)
