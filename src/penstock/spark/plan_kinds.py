"""Which operators a plan has, asked once: what it has not need not be looked for."""

from __future__ import annotations

from typing import Any

from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles

Kinds = frozenset[str]
"""The names of the classes of a plan's operators, without their packages."""


def kinds_of(jvm: Jvm, plan: Any) -> Kinds:
    names = jvm.once("kinds", lambda: _make_question(jvm)).apply(plan)
    return frozenset(str(names).split(","))


def _make_question(jvm: Jvm) -> Any:
    ask = Handles.of(jvm)
    name = ask.chain(
        ask.call("java.lang.Object", "getClass"), ask.call("java.lang.Class", "getSimpleName")
    )
    every = ask.collector("java.lang.Object", name)
    operators = ask.call("LogicalPlan", "collect", ("scala.PartialFunction", every))
    return ask.function(ask.chain(operators, ask.joined_by(",")))
