"""The full paths of state schema files, which Spark records in the metadata of operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.json_text import object_from_json, to_json
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_lock import STORE_SCHEMES
from penstock.checkpoint.store_path import StorePath
from penstock.errors import MalformedLogError

_SCHEMA = re.compile(r"([a-z0-9]+:.*?)(/state/\d+/_stateSchema/.*)", re.DOTALL)
_OF_SPARK = {"s3": "s3a"}
"""The scheme of a store in Spark's configuration, where it is not the usual one of other tools."""


def metadata_files(root: CheckpointPath) -> list[CheckpointPath]:
    """The files in which such paths are."""
    found = root.glob("state/*/_metadata/v2/*")
    return sorted(path for path in found if file_number(path.name) is not None)


def parse_metadata(text: str) -> dict[str, Any]:
    """The fields in the metadata of an operator: a line with the version, then JSON.

    Raises MalformedLogError.
    """
    return object_from_json(text.partition("\n")[2], "The metadata of the operator")


def schema_uris(text: str) -> list[str]:
    """The URIs of schema files in the metadata of an operator; none if it cannot be parsed."""
    try:
        fields = parse_metadata(text)
    except MalformedLogError:
        return []
    return [text for text in _texts(fields) if _SCHEMA.fullmatch(text)]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def is_inside(uri: str, root: CheckpointPath) -> bool:
    """Whether a URI is below a checkpoint."""
    if not isinstance(root, StorePath):
        return uri.startswith("file:") and local_file(uri).is_relative_to(Path(str(root)))
    parts = urlsplit(uri)
    if (STORE_SCHEMES.get(parts.scheme, ""), parts.netloc) != root.tree.client.identity:
        return False
    return PurePosixPath(parts.path.strip("/")).is_relative_to(root.tree.key(root.key))


def local_file(uri: str) -> Path:
    """The path of a `file:` URI."""
    return Path("/" + uri[len("file:") :].lstrip("/"))


def rebased(text: str, root: CheckpointPath, new: CheckpointPath) -> str:
    """The metadata of an operator, with the paths of a checkpoint replaced by those of its copy.

    All local paths are replaced: a checkpoint that was moved still has those of its old place. A
    text without such paths, or that cannot be parsed, is returned as it is.
    """
    try:
        fields = parse_metadata(text)
    except MalformedLogError:
        return text
    changed = _mapped(fields, lambda value: _rebased_uri(value, root, new))
    version = text.partition("\n")[0]
    return text if changed == fields else f"{version}\n{to_json(changed)}"


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it, at any depth, changed."""
    if isinstance(value, dict):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _rebased_uri(uri: str, root: CheckpointPath, new: CheckpointPath) -> str:
    match = _SCHEMA.fullmatch(uri)
    if match is None or not (uri.startswith("file:") or is_inside(uri, root)):
        return uri
    return _uri_like(match[1], new) + match[2]


def _uri_like(old: str, new: CheckpointPath) -> str:
    """The URI of a location for Spark; with the scheme of the old one if the store is the same."""
    if not isinstance(new, StorePath):
        return f"file:{new.as_posix()}"
    scheme, _, rest = str(new).partition("://")
    before = urlsplit(old).scheme
    if STORE_SCHEMES.get(before) == STORE_SCHEMES[scheme]:
        return f"{before}://{rest}"
    return f"{_OF_SPARK.get(scheme, scheme)}://{rest}"
