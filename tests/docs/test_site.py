"""`make docs`: the site builds in strict mode, has every page, and has no external resources."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

from tests.docs.blocks import PAGES, ROOT

_OUTSIDE = re.compile(r"^(https?:)?//")
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Assets(HTMLParser):
    """Collects the resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        value = dict(attrs).get(_LOADED.get(tag, ""))
        if value is not None:
            self.found.append(value)


def test_the_site_has_every_page_and_decision(site: Path) -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    for page in [*PAGES, *decisions]:
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert built.exists(), f"{page.name} is not in the site"


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        assets = _Assets()
        assets.feed(page.read_text())
        assert assets.found
        assert [asset for asset in assets.found if _OUTSIDE.match(asset)] == [], page.name
    for style in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        assert not re.search(r"(url\(|@import |href=)[\"']?(https?:)?//", style.read_text()), style


def test_the_target_builds_the_site_and_clean_removes_it() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^docs:.*\n.*mkdocs build .*--strict", makefile, re.MULTILINE)
    needed = subprocess.run(
        ["make", "--dry-run", "--always-make", "docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '["optional-dependencies"]["docs"]' in needed.stdout
    assert "--editable" not in needed.stdout, "the package and Spark are not needed"
    assert re.search(r"^\trm -rf .*\bsite\b", makefile, re.MULTILINE)
    assert "site/" in (ROOT / ".gitignore").read_text().splitlines()
