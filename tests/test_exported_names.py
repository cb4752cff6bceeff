"""The public names: all there, and loaded only when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock


def test_every_public_name_is_there() -> None:
    assert sorted(penstock.__all__) == penstock.__all__
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = penstock.nothing_of_ours  # type: ignore[attr-defined]


def test_importing_penstock_does_not_import_pyspark() -> None:
    code = "import sys, penstock; sys.exit('pyspark' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_writer_does_not_import_rich() -> None:
    code = "import sys, penstock.api.writer; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
