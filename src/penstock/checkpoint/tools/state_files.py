"""The files of the state stores: which versions exist, and which of them can be loaded.

    state/<operator>/<partition>/[<store>/]  N.delta  N.snapshot        HDFS-backed provider
                                             N.zip  N.changelog         RocksDB
                                             N_<id>.zip  N_<id>.changelog   RocksDB, format 2
    state/<operator>/_metadata/              the name and the stores of the operator

Batch N reads version N and writes version N+1; version 0 is empty and has no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.local_files import file_of, is_twin
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.tools.state_schema import has_no_key

DEFAULT_STORE = "default"

_VERSION_FILE = re.compile(r"(\d+)(?:_([0-9a-fA-F-]+))?\.(delta|snapshot|zip|changelog)")
_NAMED_AFTER_VERSION = re.compile(
    r"\.?(\d+)(?:_[0-9a-fA-F-]+)?\.(?:delta|snapshot|zip|changelog)\b"
)
_COMPLETE = ("snapshot", "zip")
_HDFS = ("delta", "snapshot")
_LISTED_GAPS = 10


@dataclass(frozen=True)
class VersionFile:
    """One file of a state store."""

    path: CheckpointPath
    version: int
    kind: str
    unique_id: str | None

    @property
    def is_complete(self) -> bool:
        """Whether it has a whole version, not only the changes of one."""
        return self.kind in _COMPLETE


@dataclass(frozen=True)
class StateStore:
    """One store of one partition of one operator."""

    operator: int
    partition: int
    name: str
    path: CheckpointPath
    files: tuple[VersionFile, ...] = ()

    @cached_property
    def by_version(self) -> dict[int, list[VersionFile]]:
        found: dict[int, list[VersionFile]] = {}
        for file in self.files:
            found.setdefault(file.version, []).append(file)
        return found

    @property
    def versions(self) -> list[int]:
        """The versions that can be loaded, ascending."""
        return [v for v in sorted(self.by_version) if self.can_load(v)]

    def can_load(self, version: int, unique_id: str | None = None) -> bool:
        """Whether every file exists that is needed to load a version.

        That is a complete file of the version, or its changes and all earlier changes back to a
        complete file or to version 0. With `unique_id`, from the commit log, the files of the
        version itself must have this id.
        """
        wanted, wanted_id = version, unique_id
        while wanted > 0:
            found = [
                file
                for file in self.by_version.get(wanted, ())
                if wanted_id is None or file.unique_id == wanted_id
            ]
            if any(f.is_complete for f in found):
                return True
            if not found:
                return False
            wanted, wanted_id = wanted - 1, None
        return True

    def beyond(self, version: int) -> list[VersionFile]:
        return [f for f in self.files if f.version > version]

    def file_names_beyond(self, version: int) -> list[CheckpointPath]:
        """All files of later versions, including checksum and temporary files."""
        found = []
        for path in sorted(self.path.iterdir()):
            match = _NAMED_AFTER_VERSION.match(path.name)
            if match and path.is_file() and int(match.group(1)) > version:
                found.append(path)
        return found


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator: its metadata, and its stores on disk."""

    id: int
    path: CheckpointPath
    stores: tuple[StateStore, ...]
    name: str | None = None
    recorded_partitions: int | None = None
    """The number of partitions in the operator's metadata, which Spark may write only once."""
    store_names: tuple[str, ...] = ()
    is_keyless: bool = False
    """Whether its state has no key, as that of `groupBy().count()`: then it is in partition 0."""

    @property
    def partitions(self) -> list[int]:
        return sorted({store.partition for store in self.stores})

    @property
    def provider(self) -> str:
        """`HDFS-backed` or `RocksDB`, from the files on disk; `unknown` if there are none."""
        kinds = {file.kind for store in self.stores for file in store.files}
        if not kinds:
            return "unknown"
        return "HDFS-backed" if kinds <= set(_HDFS) else "RocksDB"

    def expected_partitions(self, recorded: int | None) -> int:
        """The number of partitions with state; `recorded` is the one in the offset log.

        That of the log comes first: a repartitioning changes it from one batch to the next.
        """
        if self.is_keyless:
            return 1
        return recorded or self.recorded_partitions or len(self.partitions)

    def missing(
        self, version: int, partitions: int | None, ids: UniqueIds | None = None
    ) -> list[str]:
        """The stores, as paths, from which a version cannot be loaded.

        `partitions` is the number of partitions that the offset log has for the batch that wrote
        the version; None if that is not known.
        """
        if version <= 0:
            return []
        expected = self.expected_partitions(partitions)
        names = self.store_names or tuple(sorted({s.name for s in self.stores})) or (DEFAULT_STORE,)
        by_key = {(store.partition, store.name): store for store in self.stores}
        found = []
        for partition in range(expected):
            for number, name in enumerate(names):
                store = by_key.get((partition, name))
                unique_id = _unique_id(ids, self.id, partition, number, len(names))
                if store is None or not store.can_load(version, unique_id):
                    place = f"state/{self.id}/{partition}"
                    found.append(place if name == DEFAULT_STORE else f"{place}/{name}")
        return found


UniqueIds = Mapping[int, tuple[tuple[str, ...], ...]]
"""Operator -> partition -> the ids of its stores' newest files, from the commit log."""


@dataclass(frozen=True)
class StateFiles:
    """Everything below `state/`."""

    root: CheckpointPath
    operators: tuple[StateOperator, ...] = ()
    strangers: tuple[CheckpointPath, ...] = field(default=())

    @classmethod
    def scan(cls, root: CheckpointPath) -> StateFiles:
        """List the directory. If it does not exist, the query has no state."""
        children = sorted(root.iterdir()) if root.is_dir() else []
        operators = [_operator(number, path) for number, path in _numbered(children)]
        known = {operator.path for operator in operators}
        strangers = tuple(p for p in children if p not in known and p.name != "_metadata")
        return cls(root, tuple(operators), strangers)

    @property
    def is_empty(self) -> bool:
        return not self.operators and not self.strangers

    def missing(
        self, version: int, partitions: int | None, ids: UniqueIds | None = None
    ) -> list[str]:
        """The operators without a directory and the stores, as paths, from which a version cannot
        be loaded."""
        if version <= 0:
            return []
        return [
            *self.absent(ids),
            *(
                path
                for operator in self.operators
                for path in operator.missing(version, partitions, ids)
            ),
        ]

    def absent(self, ids: UniqueIds | None = None) -> list[str]:
        """The operators, as paths, that have written state and have no directory.

        Spark numbers the stateful operators of a query from 0, without gaps. `ids`, from the commit
        log, has all of them. Of those before the last directory, the first few are returned.
        """
        found = {operator.id for operator in self.operators}
        gaps = (number for number in range(max(found, default=0)) if number not in found)
        expected = {*islice(gaps, _LISTED_GAPS), *(ids or ())}
        return [f"state/{number}" for number in sorted(expected - found)]

    def paths_beyond(self, version: int) -> list[CheckpointPath]:
        """All files of later versions, and the operator metadata of later batches.

        Batch N writes version N+1, so the metadata of batch `version` is the first to be included.
        """
        found = []
        for operator in self.operators:
            for store in operator.stores:
                found += store.file_names_beyond(version)
            found += _later_metadata(operator.path / "_metadata" / "v2", version)
        return found

    def complete_beyond(self, version: int) -> list[VersionFile]:
        """The files with a whole later version, which Spark would load without a check."""
        return [
            file
            for operator in self.operators
            for store in operator.stores
            for file in store.beyond(version)
            if file.is_complete and file.unique_id is None
        ]


def _later_metadata(directory: CheckpointPath, first_batch: int) -> Iterable[CheckpointPath]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        batch = file_number((file_of(path) if is_twin(path.name) else path).name)
        if batch is not None and batch >= max(first_batch, 1):
            yield path


def _operator(number: int, path: CheckpointPath) -> StateOperator:
    stores = [
        store
        for partition, directory in _numbered(path.iterdir())
        for store in _stores(number, partition, directory)
    ]
    stores.sort(key=lambda store: (store.partition, store.name))
    metadata = _operator_metadata(path / "_metadata")
    infos = metadata.get("stateStoreInfo") or []
    name = (metadata.get("operatorInfo") or {}).get("operatorName")
    return StateOperator(
        id=number,
        path=path,
        stores=tuple(stores),
        name=name,
        recorded_partitions=max((info.get("numPartitions", 0) for info in infos), default=None),
        store_names=tuple(info["storeName"] for info in infos if "storeName" in info),
        is_keyless=has_no_key(path, name, infos),
    )


def _stores(operator: int, partition: int, directory: CheckpointPath) -> Iterable[StateStore]:
    default = _version_files(directory)
    named = [p for p in directory.iterdir() if p.is_dir() and _version_files(p)]
    if default or not named:
        yield StateStore(operator, partition, DEFAULT_STORE, directory, default)
    for path in named:
        yield StateStore(operator, partition, path.name, path, _version_files(path))


def _version_files(directory: CheckpointPath) -> tuple[VersionFile, ...]:
    found = []
    for path in directory.iterdir():
        match = _VERSION_FILE.fullmatch(path.name)
        if match and path.is_file():
            found.append(VersionFile(path, int(match[1]), match[3], match[2]))
    return tuple(sorted(found, key=lambda file: (file.version, file.kind)))


def _operator_metadata(directory: CheckpointPath) -> dict[str, Any]:
    """The metadata of an operator; empty if there is none or it cannot be read."""
    numbered = directory / "v2"
    later = _numbered(numbered.iterdir()) if numbered.is_dir() else []
    path = later[-1][1] if later else directory / "metadata"
    try:
        value = json.loads(path.read_text().partition("\n")[2])
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _unique_id(
    ids: UniqueIds | None, operator: int, partition: int, number: int, stores: int
) -> str | None:
    per_partition = (ids or {}).get(operator)
    if per_partition is None or partition >= len(per_partition):
        return None
    of_stores = per_partition[partition]
    return of_stores[number] if len(of_stores) == stores else None


def _numbered(paths: Iterable[CheckpointPath]) -> list[tuple[int, CheckpointPath]]:
    """The paths whose names are numbers, in the order of these."""
    numbers = ((file_number(path.name), path) for path in paths)
    return sorted((number, path) for number, path in numbers if number is not None)
