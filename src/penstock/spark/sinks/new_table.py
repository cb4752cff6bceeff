"""Creates the table of `toTable` with the logical plan that Spark's DataStreamWriter runs.

The plan has the columns with their metadata and their types as they are. The text of a CREATE TABLE
statement could not express all of them: watermarks, CHAR and VARCHAR, user-defined types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.jvm.gateway import Jvm

CLUSTERING_KEY = "__clustering_columns"
"""The table property, and the option of a V1 sink, with the clustering columns."""


@dataclass(frozen=True)
class NewTable:
    """A table that does not exist yet."""

    name_parts: Any
    """The parsed name, a Scala Seq."""
    schema: Any
    """The StructType of the rows. All columns of the table are nullable."""
    provider: str
    location: str | None = None
    partition_columns: Sequence[str] = ()
    clustering_columns: Sequence[str] | None = None
    """In the spelling of the schema. If given, the partition columns are ignored, as by Spark."""


def create_table(jvm: Jvm, jsession: Any, table: NewTable) -> None:
    """Create the table. Raises AnalysisException if it exists."""
    plan = jvm.new(
        "CreateTable",
        name=jvm.new("UnresolvedIdentifier", nameParts=table.name_parts, allowTemp=False),
        partitioning=_partitioning(jvm, table),
        tableSpec=_table_spec(jvm, table),
        ignoreIfExists=False,
        **_columns(jvm, jsession, table.schema.asNullable()),
    )
    jvm.module("ClassicDataset").ofRows(jsession, plan)  # runs a command at once


def _columns(jvm: Jvm, jsession: Any, schema: Any) -> dict[str, Any]:
    """The argument of the plan with the columns: a list of definitions, or the schema itself."""
    if not jvm.line.has("ColumnDefinition"):
        return {"tableSchema": schema}
    parser = jsession.sessionState().sqlParser()
    define = jvm.module("ColumnDefinition").fromV1Column
    return {"columns": jvm.seq(define(column, parser) for column in schema.fields())}


def _partitioning(jvm: Jvm, table: NewTable) -> Any:
    """The transforms of the partition columns, or one for the clustering columns."""
    if table.clustering_columns is not None:
        reference = jvm.module("FieldReference").apply
        columns = jvm.seq(reference(column) for column in table.clustering_columns)
        return jvm.seq([jvm.new("ClusterByTransform", columnNames=columns)])
    helper = jvm.module("CatalogV2Implicits").PartitionTypeHelper(jvm.seq(table.partition_columns))
    return jvm.seq(helper.asTransforms())


def _table_spec(jvm: Jvm, table: NewTable) -> Any:
    return jvm.new(
        "UnresolvedTableSpec",
        properties=_properties(jvm, table),
        provider=jvm.some(table.provider),
        optionExpression=jvm.new("OptionList", options=jvm.empty_seq),
        location=jvm.option(table.location),
        comment=jvm.none,
        collation=jvm.none,
        serde=jvm.none,
        external=False,
        constraints=jvm.empty_seq,
    )


def _properties(jvm: Jvm, table: NewTable) -> Any:
    if table.clustering_columns is None:
        return jvm.scala_map({})
    encode = jvm.cls("DataSourceUtils").encodePartitioningColumns
    return jvm.scala_map({CLUSTERING_KEY: encode(jvm.seq(table.clustering_columns))})
