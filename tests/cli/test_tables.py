"""The output of the commands is wrapped to the width of a terminal, and not wrapped in a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.main import app
from penstock.cli.output import TextOutput
from penstock.cli.tables import Column, print_table
from penstock.engine.faults import FaultPoint
from penstock.testing.crash_faults import BatchPoint
from penstock.testing.crash_report import CrashReport, Trial
from tests.checkpoint.tools.checkpoints import stateful

GOLDEN = Path(__file__).parents[1] / "golden" / "spark-4.3.0"
CHECKPOINTS = sorted(path.name for path in GOLDEN.iterdir())
WIDTHS = (80, 100, 120)


def printed(show: Callable[[TextOutput], None], width: int, *, terminal: bool = True) -> list[str]:
    """The lines that are printed to a terminal of this width, or to a pipe."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    show(TextOutput(console))
    return stream.getvalue().splitlines()


def checkpoint(name: str) -> CheckpointView:
    return CheckpointView(GOLDEN / name)


def assert_fits(lines: list[str], width: int, *identifiers: str | None) -> None:
    """Assert that only lines of a single word, which is not split, are too wide."""
    assert [line for line in lines if len(line) > width and len(line.split()) > 1] == []
    assert [line for line in lines if line != line.rstrip()] == []
    text = "\n".join(lines)
    assert [name for name in identifiers if name is not None and name not in text] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_fits(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    report = inspect(CheckpointView(name))
    lines = printed(lambda out: out.checkpoint(report, all_batches=True, settings=True), width)
    path, *rest = lines
    assert path == report.path
    settings = [key.removeprefix("spark.sql.") for key in report.settings]
    offsets = [source.offset for source in report.sources]
    assert_fits(rest, width, report.query_id, *settings, *offsets)
    batches = [line for line in rest if line.startswith("batch ")]
    assert len(batches) == 1, "the batches are a table"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_batch_fits(name: str, width: int) -> None:
    detail = inspect_batch(checkpoint(name), 1)
    lines = printed(lambda out: out.batch(detail, settings=False), width)
    assert_fits(lines, width, *detail.batch.offsets.values())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_difference_fits(name: str, width: int) -> None:
    left, right = checkpoint("windowed"), checkpoint(name)
    found = compare(left, right)
    lines = printed(lambda out: out.differences("a", "b", found), width)
    sides = [side for d in found for side in (d.left, d.right) if side and " " not in side]
    names = [side.rpartition("org.apache.spark.")[2].rpartition(".")[2] for side in sides]
    assert_fits(lines, width, *(d.subject for d in found), *names)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_verification_fits(tmp_path: Path, width: int) -> None:
    stateful(tmp_path / "c", 4)
    (tmp_path / "c" / "offsets" / "3").unlink()
    (tmp_path / "c" / "state" / "0" / "0" / "3.delta").unlink()
    found = verify(CheckpointView(tmp_path / "c"))
    assert len(found.findings) > 1
    lines = printed(lambda out: out.verification(found), width)
    assert_fits(lines, width, *(finding.file for finding in found.findings))
    words = " ".join(" ".join(lines).split())
    for finding in found.findings:
        assert finding.remedy in words


@pytest.mark.parametrize("width", WIDTHS)
def test_a_crash_report_fits(width: int) -> None:
    crashed = BatchPoint(FaultPoint.AFTER_START_OFFSETS, 1)
    rows = [(f"row-number-{n}", n) for n in range(9)]
    report = CrashReport(
        [
            Trial.of(crashed, (1,), [], rows),
            Trial(crashed, error="ended with 1: Traceback:\n  File x\nValueError: " + "why " * 40),
        ],
        list(FaultPoint),
        9,
        [crashed],
    )
    lines = printed(lambda out: out.crash_report(report), width)
    assert_fits(lines, width, "after_start_offsets", "('row-number-2',", "ValueError:")
    assert any("Interrupted: 2 of 3 crashes were tried." in line for line in lines)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_piped_output_is_not_wrapped(name: str) -> None:
    """The COLUMNS of the environment have no effect."""
    narrow = CliRunner(env={"COLUMNS": "40"}).invoke(
        app, ["checkpoint", "show", "--settings", str(GOLDEN / name)]
    )
    wide = CliRunner(env={"COLUMNS": "400"}).invoke(
        app, ["checkpoint", "show", "--settings", str(GOLDEN / name)]
    )
    assert narrow.stdout == wide.stdout
    report = inspect(checkpoint(name))
    lines = narrow.stdout.splitlines()
    heading = next(n for n, line in enumerate(lines) if line.startswith("batch "))
    rows = lines[heading + 1 : heading + 1 + len(report.batches)]
    assert [row.split()[0] for row in rows] == [str(batch.id) for batch in report.batches]


def test_a_date_that_is_repeated_is_left_out(tmp_path: Path) -> None:
    report = inspect(checkpoint("windowed"))
    lines = printed(lambda out: out.checkpoint(report, all_batches=True, settings=False), 120)
    assert any("2025-03-01 09:59:55 -> 10:00:20" in line for line in lines)
    assert f"{len(report.settings)} recorded settings: --settings" in lines


def test_a_word_that_is_wider_than_the_terminal_is_not_split() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=20, force_terminal=True, color_system=None)
    path = "/a/path/that/is/wider/than/the/terminal"
    columns = [Column("name"), Column("value", breaks=True)]
    print_table(console, columns, [("x", f"{path} is it"), ("y", "1,2,3,4,5,6,7,8,9,10")])
    assert stream.getvalue().splitlines() == [
        "name x",
        f"  value  {path}",
        "         is it",
        "name y",
        "  value  1,2,3,4,5,",
        "         6,7,8,9,10",
    ]
