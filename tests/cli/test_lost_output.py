"""The exit codes of `penstock checkpoint` if its standard output cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.checkpoint.own_files import interrupted_command
from tests.checkpoint.tools.checkpoints import content_of, stateless
from tests.checkpoint.tools.test_keep import used_since


def with_output_to(output: int, *words: object) -> tuple[int, str]:
    """The exit code and the errors of a command whose standard output is a file descriptor."""
    command = [sys.executable, "-m", "penstock.cli", "checkpoint", *map(str, words)]
    ran = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    return ran.returncode, ran.stderr


@pytest.fixture(params=["a full disk", "a reader that has gone"])
def lost_output(request: pytest.FixtureRequest) -> Iterator[int]:
    if request.param == "a full disk":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_change_succeeds_even_if_its_result_cannot_be_printed(
    checkpoint: Path, tmp_path: Path, lost_output: int, options: list[str]
) -> None:
    stateless(checkpoint)
    before = content_of(checkpoint)
    code, errors = with_output_to(lost_output, "rewind", checkpoint, "--to", 1, "--yes", *options)
    assert (code, "Traceback" in errors) == (0, False), errors
    assert "the change was made, but its result was not printed" in errors
    assert content_of(checkpoint) != before
    for command in (["undo", checkpoint, "--yes"], ["fork", checkpoint, tmp_path / "fork"]):
        code, errors = with_output_to(lost_output, *command, *options)
        assert (code, "Traceback" in errors) == (0, False), errors
    assert content_of(checkpoint) == before
    assert (tmp_path / "fork" / "metadata").exists()


def test_a_checkpoint_is_kept_even_if_that_cannot_be_printed(
    checkpoint: Path, lost_output: int
) -> None:
    used_since(checkpoint)
    code, errors = with_output_to(lost_output, "undo", checkpoint, "--keep", "--yes")
    assert code == 0, errors
    assert "the change was made, but its result was not printed" in errors
    assert interrupted_command(checkpoint) is None


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_report_that_cannot_be_printed_is_not_a_success(
    checkpoint: Path, lost_output: int, options: list[str]
) -> None:
    stateless(checkpoint)
    for command in (["show", checkpoint], ["rewind", checkpoint, "--to", 1]):
        code, errors = with_output_to(lost_output, *command, *options)
        assert (code, "Traceback" in errors) == (2, False), errors
