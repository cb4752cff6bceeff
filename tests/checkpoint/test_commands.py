"""Commands in messages can be copied into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.commands import checkpoint_command, command_line, undo_of
from penstock.checkpoint.tools.findings import Finding
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import state_version, stateful, stateless, write

HARD = 'my check*\'s "$HOME" ü'


def test_words_are_quoted_only_where_the_shell_needs_it() -> None:
    assert command_line("rm", Path("/a/.7.crc")) == "rm /a/.7.crc"
    assert checkpoint_command("undo", "s3a://b/c", "--to", 3) == (
        "penstock checkpoint undo s3a://b/c --to 3"
    )
    assert command_line("rm", "/a b") == "rm '/a b'"
    assert undo_of(Path("/a b")) == "penstock checkpoint undo '/a b' --yes"
    assert undo_of("s3a://b/c", keep=True) == (
        "penstock checkpoint undo s3a://b/c --keep --yes --stopped"
    )


def _remove_commit(root: Path) -> None:
    for batch in (2, 3):
        (root / f"commits/{batch}").unlink()


def _remove_offsets(root: Path) -> None:
    (root / "offsets/2").unlink()


def _leave_state(root: Path) -> None:
    stateful(root)
    state_version(root, 0, 9, "snapshot")


def _remove_state(root: Path) -> None:
    stateful(root)
    (root / "state/0/1/4.delta").unlink()


def _leave_checksum(root: Path) -> None:
    (root / "offsets/.9.crc").write_bytes(b"crc")


def _leave_temporary(root: Path) -> None:
    write(root / "offsets/.4.x.tmp", "half", twin=False)


def _other_sources(root: Path) -> None:
    write(root / "offsets/3", (root / "offsets/3").read_text() + "\n1")


def _leave_sink_entry(root: Path) -> None:
    write(root / ".penstock/sinks/lake/9", "v1\n{}", twin=False)


@pytest.mark.parametrize(
    "damage",
    [
        _remove_commit,
        _remove_offsets,
        _leave_state,
        _remove_state,
        _leave_checksum,
        _leave_temporary,
        _other_sources,
        _leave_sink_entry,
    ],
)
def test_the_remedies_of_verify_are_quoted(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Split by a shell, a remedy has the path of the checkpoint, or of a file in it, as a word."""
    root = stateless(tmp_path / HARD)
    damage(root)
    with_command = [f for f in verify(CheckpointView(root)).findings if _has_command(f)]
    assert with_command
    for finding in with_command:
        words = shlex.split(finding.remedy)
        assert any(word.startswith(str(root)) for word in words), finding.remedy


def _has_command(finding: Finding) -> bool:
    return "penstock checkpoint" in finding.remedy or "rm " in finding.remedy
