"""`current_timestamp` and its like, fixed to the timestamp a batch was decided with."""

from __future__ import annotations

from typing import Any

from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles

_DUMMY_ZONE = "Dummy TimeZoneId"
"""current_timestamp has no time zone, and Spark insists that its replacement have one."""

_WITHOUT_ZONE = ("CurrentTimestamp", "CurrentTimestampNanos")
_WITH_ZONE = ("LocalTimestamp", "LocalTimestampNanos", "CurrentDate")


class BatchTime:
    """Knows the current-time expressions of a plan. A batch that is re-run sees the same time."""

    def __init__(self, jvm: Jvm, analyzed: Any) -> None:
        self._jvm = jvm
        self._replacements = jvm.cls("java.util.HashMap")()
        self._expressions = _find(jvm, analyzed)
        self.replacing: list[tuple[str, Any]] = []
        """The plan's methods to be called, with the function for each, to make it read the time."""
        if self._expressions:
            replace = Handles.of(jvm).substitution(self._replacements)
            self.replacing.append(("transformAllExpressions", replace))

    def set(self, timestamp_ms: int) -> None:
        """The time that replaces every current-time expression from now on."""
        for expression, data_type, zone in self._expressions:
            time = self._jvm.cls("CurrentBatchTimestamp")(timestamp_ms, data_type, zone)
            self._replacements.put(expression, time)


def _find(jvm: Jvm, analyzed: Any) -> list[tuple[Any, Any, Any]]:
    """Each distinct current-time expression of a plan, with its type and its time zone."""
    if not analyzed.containsPattern(jvm.module("TreePattern").CURRENT_LIKE()):
        return []
    handles = Handles.of(jvm)
    everything = handles.collector("java.lang.Object")
    found: list[tuple[Any, Any, Any]] = []
    for kind in (*_WITHOUT_ZONE, *_WITH_ZONE):
        collector = handles.collector(kind)
        for node in jvm.to_list(analyzed.collect(everything)):
            for root in jvm.to_list(node.expressions()):
                for expression in jvm.to_list(root.collect(collector)):
                    if not any(known.equals(expression) for known, _, _ in found):
                        has_zone = kind in _WITH_ZONE
                        zone = expression.timeZoneId() if has_zone else jvm.some(_DUMMY_ZONE)
                        found.append((expression, expression.dataType(), zone))
    return found
