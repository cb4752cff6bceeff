"""The fixtures of the pytest plugin, and that it imports no PySpark unless they are used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from pyspark.sql import SparkSession

import penstock.testing
from penstock.testing import ManualClock, MemoryStream, StreamScript


def test_the_fixtures_together(
    spark: SparkSession,
    penstock_spark: SparkSession,
    penstock_memory_stream: Callable[..., MemoryStream],
    penstock_script: Callable[..., StreamScript],
    penstock_clock: ManualClock,
    penstock_checkpoint: str,
) -> None:
    assert penstock_spark.sparkContext is spark.sparkContext
    assert not Path(penstock_checkpoint).exists()
    numbers = penstock_memory_stream("n long", rows_per_batch=1)
    script = penstock_script(numbers.to_df()).add(numbers, [1, 2]).advance(seconds=3).step()
    script.expect_rows([1]).run().expect_rows([2])
    assert penstock_clock.time_millis() == 3000
    assert (Path(penstock_checkpoint) / "commits" / "1").exists()


def test_each_script_of_a_test_has_a_checkpoint_of_its_own(
    penstock_memory_stream: Callable[..., MemoryStream],
    penstock_script: Callable[..., StreamScript],
    penstock_checkpoint: str,
    tmp_path: Path,
) -> None:
    numbers = penstock_memory_stream("n long")
    given = str(tmp_path / "given")
    for arguments in ({"checkpoint": given}, {}, {}):
        numbers.add_data([1])
        penstock_script(numbers.to_df(), **arguments).step().expect_batch(0)
    for checkpoint in (given, penstock_checkpoint, f"{penstock_checkpoint}-2"):
        assert (Path(checkpoint) / "commits" / "0").exists()


def test_the_plugin_is_found() -> None:
    (found,) = entry_points(group="pytest11", name="penstock")
    assert found.value == "penstock.testing.pytest_plugin"


def test_the_plugin_imports_nothing_heavy() -> None:
    program = (
        "import sys, penstock.testing.pytest_plugin\n"
        "heavy = ('pyspark', 'py4j', 'pandas', 'penstock.engine', 'penstock.checkpoint')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


def test_the_names_of_the_test_kit() -> None:
    assert sorted(penstock.testing.__all__) == sorted(penstock.testing._HOMES)
    for name, home in penstock.testing._HOMES.items():
        found = getattr(penstock.testing, name)
        assert found is getattr(importlib.import_module(home), name)
    assert dir(penstock.testing) == penstock.testing.__all__
    assert not hasattr(penstock.testing, "nothing_of_that_name")
