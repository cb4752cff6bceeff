"""The tests and programs that the compatibility table names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.differential.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "compatibility.md").read_text().splitlines()
ROWS = [line for line in LINES if re.match(r"\|[^|]+\| (same|better|refused) \|", line)]
WITNESSES = sorted(set(re.findall(r"`((?:program:|tests/)[^`]+)`", "\n".join(ROWS))))


def test_every_feature_names_a_test() -> None:
    assert len(ROWS) >= 40
    assert [row for row in ROWS if "`program:" not in row and "`tests/" not in row] == []


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_named_program_or_test_exists(witness: str) -> None:
    if witness.startswith("program:"):
        assert witness.removeprefix("program:") in {program.name for program in PROGRAMS}
        return
    path, _, name = witness.partition("::")
    source = (ROOT / path).read_text()
    assert not name or f"def {name}(" in source
