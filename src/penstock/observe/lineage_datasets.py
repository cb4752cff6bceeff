"""Names the datasets of a query by the naming conventions of OpenLineage.

A dataset is named after what its source or sink says of itself in progress records, and after its
options if it is Kafka. What is not a dataset (a rate source, a console, a function of the user), or
cannot be named from this, has no name and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.checkpoint.known_offsets import KafkaOffset, parse_known

_AT_PATH = re.compile(r"(?:FileStreamSource|FileSink|DeltaSource|DeltaSink)\[(.+)\]", re.DOTALL)
_OF_TABLE = re.compile(r"IcebergSink\[(.+)\]")
_OF_WRITER = re.compile(r"BatchWriter\[(?:\S+ )?(\S+)\]")
_FORMAT_ONLY = re.compile(r"BatchWriter\[[^ ./]*\]")
_TABLE = re.compile(r"\w+(?:\.\w+){1,}")
_OBJECT_STORES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfss": "abfss",
    "wasbs": "wasbs",
}
"""The schemes of object stores, whose keys have no slash at the beginning, and their namespaces."""

_SERVERS = "kafka.bootstrap.servers"
_DEFAULT_CATALOG = "spark_catalog"


@dataclass(frozen=True)
class DatasetName:
    """A dataset: the namespace of its storage, and its name there."""

    namespace: str
    name: str


def inputs_of(
    description: str, options: Mapping[str, str], end_offset: str | None
) -> list[DatasetName]:
    """The datasets that a source reads: the topics of Kafka, one dataset of others, or none."""
    known = parse_known(end_offset)
    servers = _option(options, _SERVERS)
    if isinstance(known, KafkaOffset) and servers:
        topics = dict.fromkeys(partition.topic for partition in known.partitions)
        return [_kafka(servers, topic) for topic in topics]
    return _described(description)


def outputs_of(description: str, options: Mapping[str, str]) -> list[DatasetName]:
    """The dataset that a sink writes, or none. `options` are those of the query's writer."""
    servers, topic = _option(options, _SERVERS), _option(options, "topic")
    if servers and topic and "kafka" in description.lower():
        return [_kafka(servers, topic)]
    return _described(description)


def _described(description: str) -> list[DatasetName]:
    for pattern in (_AT_PATH, _OF_TABLE, _OF_WRITER):
        found = pattern.fullmatch(description)
        if found is not None and not _FORMAT_ONLY.fullmatch(description):
            return [_path(found[1]) if "/" in found[1] else _table(found[1])]
    return [_table(description)] if _TABLE.fullmatch(description) else []


def _kafka(servers: str, topic: str) -> DatasetName:
    return DatasetName(f"kafka://{servers.split(',')[0].strip()}", topic)


def _path(location: str) -> DatasetName:
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return DatasetName("file", "/" + parts.path.strip("/"))
    store = _OBJECT_STORES.get(parts.scheme)
    if store is not None:
        return DatasetName(f"{store}://{parts.netloc}", parts.path.strip("/") or "/")
    return DatasetName(f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/") or "/")


def _table(name: str) -> DatasetName:
    """A table of a catalog of Spark: the catalog, and the name of the table in it."""
    parts = name.replace("`", "").split(".")
    if len(parts) < 3:
        return DatasetName(_DEFAULT_CATALOG, ".".join(parts))
    return DatasetName(parts[0], ".".join(parts[1:]))


def _option(options: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name), None)
