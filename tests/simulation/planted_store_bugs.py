"""Bugs that a file layer for object stores could have; see `planted_bugs`."""

from __future__ import annotations

import pytest

from penstock.checkpoint import ObjectStoreFiles
from penstock.checkpoint.known_files import KnownFiles

Patch = pytest.MonkeyPatch


def own_write_taken_for_anothers(patch: Patch) -> None:
    """A request that the client repeated is refused, and that is believed."""
    patch.setattr(ObjectStoreFiles, "_is_ours", lambda self, name, data, mark: False)


def recognised_by_bytes(patch: Patch) -> None:
    """Two runs of a batch write the same entry to the commit log."""

    def is_ours(self: ObjectStoreFiles, name: str, data: bytes, mark: str) -> bool:
        return self._store.get(name) == data

    patch.setattr(ObjectStoreFiles, "_is_ours", is_ours)


def failed_request_taken_for_done(patch: Patch) -> None:
    patch.setattr(ObjectStoreFiles, "_look_up", lambda self, name, data, mark, failure: True)


def store_not_checked(patch: Patch) -> None:
    patch.setattr(KnownFiles, "require_for", lambda self, log: None)
