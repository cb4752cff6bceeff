"""The full paths of state schema files, which Spark records in the metadata of operators."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_lock import STORE_SCHEMES
from penstock.checkpoint.store_path import StorePath

_SCHEMA = re.compile(r'"([a-z0-9]+:[^"]*?)(/state/\d+/_stateSchema/[^"]*)"')
_OF_SPARK = {"s3": "s3a"}
"""The scheme of a store in Spark's configuration, where it is not the usual one of other tools."""


def metadata_files(root: CheckpointPath) -> list[CheckpointPath]:
    """The files in which such paths are."""
    return sorted(p for p in root.glob("state/*/_metadata/v2/*") if p.name.isdigit())


def schema_uris(text: str) -> list[str]:
    """The URIs of schema files in the metadata of an operator."""
    return [start + end for start, end in _SCHEMA.findall(text)]


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

    All local paths are replaced: a checkpoint that was moved still has those of its old place.
    """

    def replacement(match: re.Match[str]) -> str:
        uri = match[1] + match[2]
        if not uri.startswith("file:") and not is_inside(uri, root):
            return match[0]
        return f'"{_uri_like(match[1], new)}{match[2]}"'

    return _SCHEMA.sub(replacement, text)


def _uri_like(old: str, new: CheckpointPath) -> str:
    """The URI of a location for Spark; with the scheme of the old one if the store is the same."""
    if not isinstance(new, StorePath):
        return f"file:{new.as_posix()}"
    scheme, _, rest = str(new).partition("://")
    before = urlsplit(old).scheme
    if STORE_SCHEMES.get(before) == STORE_SCHEMES[scheme]:
        return f"{before}://{rest}"
    return f"{_OF_SPARK.get(scheme, scheme)}://{rest}"
