"""A tree of objects that several threads use at the same time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

import pytest

from penstock.checkpoint.store_path import ObjectStatus
from tests.checkpoint.tools.buckets import Buckets, path_at, use_buckets

PATIENCE = 30.0


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Buckets:
    return use_buckets(monkeypatch)


@pytest.mark.parametrize("loses_at", [None, 0], ids=["answered", "not answered"])
def test_a_change_during_a_listing_is_known_afterwards(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, loses_at: int | None
) -> None:
    tree = path_at().tree
    buckets.put("a", b"1")
    has_listed, may_return = threading.Event(), threading.Event()
    list_now = tree.client.list

    def list_slowly(prefix: str) -> Mapping[str, ObjectStatus]:
        found = list_now(prefix)
        has_listed.set()
        may_return.wait(PATIENCE)
        return found

    def write() -> None:
        with suppress(OSError):
            tree.put("b", b"2")

    monkeypatch.setattr(tree.client, "list", list_slowly)
    buckets.loses_at = loses_at
    lister, writer = threading.Thread(target=tree.files), threading.Thread(target=write)
    lister.start()
    assert has_listed.wait(PATIENCE)
    writer.start()
    writer.join(0.2)  # it waits for the listing, if it does not end before
    may_return.set()
    lister.join(PATIENCE)
    writer.join(PATIENCE)
    assert tree.files() == ["a", "b"]
    assert tree.is_file("b")
