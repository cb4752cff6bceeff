"""The files that Penstock adds to a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.checkpoint.own_files import InterruptedCommand, interrupted_command, manifests_of


def add_manifest(root: Path, backup: str, *, is_done: bool, operation: str = "rewind") -> Path:
    path = root / ".penstock" / "backups" / backup / "manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"operation": operation, "isDone": is_done}))
    return path


def test_a_checkpoint_without_backups_has_no_manifests(tmp_path: Path) -> None:
    assert manifests_of(tmp_path) == []
    assert interrupted_command(tmp_path) is None


def test_manifests_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ("10000", "0002", "9999")
    made = {name: add_manifest(tmp_path, name, is_done=True) for name in names}
    add_manifest(tmp_path, "copy", is_done=False)
    (tmp_path / ".penstock" / "backups" / "0003").mkdir()
    assert manifests_of(tmp_path) == [made["0002"], made["9999"], made["10000"]]
    assert interrupted_command(tmp_path) is None


def test_the_interrupted_command_is_named_with_its_backup(tmp_path: Path) -> None:
    add_manifest(tmp_path, "0001", is_done=True)
    manifest = add_manifest(tmp_path, "0002", is_done=False, operation="skip")
    assert interrupted_command(tmp_path) == InterruptedCommand(manifest.parent, "skip")
