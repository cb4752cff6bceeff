"""The output settings of a `DataStreamWriter`: its sink, options, mode and partitioning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.api.sink_specs import AnySink, refuse_other_sinks
from penstock.connectors import PythonSink
from penstock.spark.sinks.many_sinks import SinkSpec
from penstock.spark.sinks.sink_factory import SinkRequest

OptionValue = bool | float | int | str | None

_BATCH_FUNCTION = "foreachBatch"


@dataclass
class WriterOutput:
    """The settings so far. Of a format, a function and a sink, the last one given is used."""

    mode: str = "append"
    options: dict[str, str] = field(default_factory=dict)
    format: str | None = None
    partition_columns: list[str] | None = None
    clustering_columns: list[str] | None = None
    sink_name: str | None = None
    many: list[SinkSpec] = field(default_factory=list)
    _foreach: Any = None
    _batch_function: AnySink | None = None
    _batch_function_name: str | None = None

    def set_option(self, key: str, value: OptionValue) -> None:
        """Set an option, whose name is case-insensitive. None removes it."""
        for known in [known for known in self.options if known.lower() == key.lower()]:
            del self.options[known]
        if value is not None:
            self.options[key] = str(value).lower() if isinstance(value, bool) else str(value)

    def use_format(self, sink_format: str) -> None:
        self.format = sink_format
        self._foreach = self._batch_function = self._batch_function_name = None

    def use_foreach(self, function: Any) -> None:
        self.use_format("foreach")
        self._foreach = function

    def use_batch_function(self, function: Any) -> None:
        """Raises TypeError if the function is not callable."""
        if not callable(function):
            raise TypeError(
                f"foreachBatch needs a function (df, batch_id), not {function!r} of the type "
                f"{type(function).__name__}"
            )
        self.use_format(_BATCH_FUNCTION)
        self._batch_function = function

    def use_python_sink(self, sink: PythonSink) -> None:
        """Raises TypeError if it is not a PythonSink."""
        if not isinstance(sink, PythonSink):
            raise TypeError(f"the sink must be a PythonSink, not {sink!r}")
        self.use_format(_BATCH_FUNCTION)
        self._batch_function, self._batch_function_name = sink, str(sink)

    def request(self, path: str | None, table: str | None, default_format: str) -> SinkRequest:
        """The sink that the settings describe.

        Raises ExecutionError for one of many sinks beside a sink of another kind.
        """
        if self.many:
            refuse_other_sinks(self.format, path, table)
        return SinkRequest(
            format=_BATCH_FUNCTION if self.many else self.format or default_format,
            output_mode=self.mode,
            options=dict(self.options),
            partition_columns=self.partition_columns,
            clustering_columns=self.clustering_columns,
            foreach=self._foreach,
            batch_function=self._batch_function,
            batch_function_name=self._batch_function_name,
            name=self.sink_name,
            many=tuple(self.many),
        )


def flatten(columns: tuple[Any, ...]) -> list[str]:
    """The columns as a list; PySpark accepts them one by one or as one list."""
    if len(columns) == 1 and isinstance(columns[0], (list, tuple)):
        return list(columns[0])
    return list(columns)
