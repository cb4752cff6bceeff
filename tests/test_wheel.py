"""The wheel: what PyPI shows of it, and the files that are no Python."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (file,) = folder.glob("penstock-*.whl")
    with zipfile.ZipFile(file) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_it_says_who_made_it_and_where_it_is(metadata: Message) -> None:
    assert metadata["Author"] == "The Penstock authors"
    urls = dict(str(line).split(", ") for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog"}
    assert all(url.startswith("https://") for url in urls.values())


def test_it_has_the_readme(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).strip() == (ROOT / "README.md").read_text().strip()


def test_the_documentation_needs_no_spark(metadata: Message) -> None:
    needs = [str(line) for line in metadata.get_all("Requires-Dist", [])]
    assert [need for need in needs if "extra == 'docs'" in need] == [
        "mkdocs-material<10,>=9.5; extra == 'docs'",
        "mkdocstrings[python]; extra == 'docs'",
    ]


def test_it_has_what_is_no_python(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"penstock/py.typed", "penstock/web/page.html"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    dashboard = wheel.read("penstock/web/grafana-dashboard.json")
    assert json.loads(dashboard)["panels"]


def test_the_command_prints_the_dashboard_that_the_page_links_to() -> None:
    printed = CliRunner().invoke(app, ["dashboard"])
    linked = ROOT / "docs" / "grafana-dashboard.json"
    assert json.loads(printed.stdout) == json.loads(linked.read_text())
