"""The reader of the pages detects errors in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of, commands_of, is_as_shown
from tests.docs.clicks import clicks
from tests.docs.reader import Reader


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("one two\nthree\n", True),
        ("one ...\nthree\n", True),
        ("...\nthree\n", True),
        ("... two\nthree\n", True),
        ("one two\n", False),
        ("one\n...\n", False),
        ("one ...\nfour\n", False),
        ("", False),
    ],
)
def test_output_is_compared_with_what_is_shown(shown: str, is_right: bool) -> None:
    assert is_as_shown("one two  \nthree\n", shown) is is_right


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("sh", "penstock checkpoint verify nowhere\n"),
        ("sh", "penstock checkpoint verify checkpoint --loudly\n"),
        ("sh", "penstock checkpoint look checkpoint\n"),
        ("sh", "make tea\n"),
        ("sh", "pip install '.[coffee]'\n"),
        ("sh", "cat nothing\n"),
        ("console", "$ penstock checkpoint verify checkpoint  # exit code 1\n"),
        ("console", "$ penstock checkpoint verify checkpoint\nA restart will fail.\n"),
        ("console", "$ echo tea\n"),
        ("python", "raise AssertionError\n"),
    ],
)
def test_a_wrong_block_fails(
    kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clicks(tmp_path / "checkpoint")
    with pytest.raises(AssertionError):
        Reader().follow(Block("page.md", 1, kind, text))


def test_blocks_and_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "A page.\n\n```sh\nls \\\n  -l  # all\n\nfalse  # exit code 1\n```\n\n"
        '```\nmake demo\n```\n\n```text title="a/b"\nmake demo\n```\n'
    )
    listing, bare, stray = blocks_of(page)
    assert [c.line.split() for c in commands_of(listing)] == [["ls", "-l"], ["false"]]
    assert [c.code for c in commands_of(listing)] == [0, 1]
    assert (listing.line, bare.kind, stray.title) == (3, "sh", "a/b")
    assert stray.has_stray_command
