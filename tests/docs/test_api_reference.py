"""The API reference has every public name, and nothing else."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import penstock
import penstock.sinks
import penstock.testing
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "api.md"
MODULES = (penstock, penstock.sinks, penstock.testing)
PUBLIC = [f"{module.__name__}.{name}" for module in MODULES for name in module.__all__]


def test_it_names_every_public_name_once_and_nothing_else() -> None:
    named = re.findall(r"^::: (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(PUBLIC)


def test_each_is_headed_by_its_public_name_and_has_its_docstring(site: Path) -> None:
    page = (site / "api.html").read_text()
    headings = dict(re.findall(r'<h3 id="([\w.]+)"[^>]*>(.*?)</h3>', page, re.DOTALL))
    assert sorted(headings) == sorted(PUBLIC)
    shown = as_text(page)
    for module in MODULES:
        for name in module.__all__:
            assert as_text(headings[f"{module.__name__}.{name}"]).startswith(
                f"{module.__name__}.{name}"
            )
            if name != "__version__":
                first_line = (getattr(module, name).__doc__ or "").splitlines()[0]
                assert first_line.replace("`", "") in shown


@pytest.mark.parametrize(
    "internal",
    [
        "StreamingQuery.begin",
        "StreamingQuery.ends_with",
        "StreamingQueryManager.start",
        "StreamingQueryManager.run_ended",
        "StreamingQueryManager.end",
    ],
)
def test_what_only_the_manager_calls_is_left_out(site: Path, internal: str) -> None:
    kind, method = internal.split(".")
    assert hasattr(getattr(penstock, kind), method), "nothing is left out under this name"
    assert f'id="penstock.{internal}"' not in (site / "api.html").read_text()


def as_text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())
