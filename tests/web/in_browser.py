"""The live page in a real browser. Run by `make test-web`, not by `make test`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import QuerySnapshot
from penstock.web.server import WebServer
from tests.snapshots import batch, paced, snapshot, watermark
from tests.web.chromium import Browser, Tab, running_browser

LIVE = "document.getElementById('link').textContent === 'live'"
STOP = "[...document.querySelectorAll('button')].find(b => b.textContent.startsWith('Stop'))"
DIALOG = "document.getElementById('ask')"


class Program:
    """The program that the page shows: its queries, set by the test, and the stopped runs."""

    def __init__(self) -> None:
        self.queries = [snapshot(watermark=watermark(), state_rows=5, state_memory_bytes=2048)]
        self.stopped: list[str] = []
        self.runs = True

    def source(self) -> list[QuerySnapshot]:
        return self.queries

    def stop(self, run_id: str) -> bool:
        if not self.runs:
            return False
        self.stopped.append(run_id)
        self.queries = [snapshot(condition="stopping")]
        return True


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def server(program: Program) -> Iterator[WebServer]:
    with WebServer(0, "127.0.0.1", "the-token", program.source, program.stop) as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    browser.events.clear()
    opened = browser.tab()
    yield opened
    assert opened.complaints() == []


def test_the_page_shows_the_queries(tab: Tab, server: WebServer) -> None:
    tab.open(server.address)
    tab.wait_for(LIVE)
    text = tab.text()
    for part in ("clicks", "running", "981", "12,345", "42", "held back by seen_at", "2.0 KiB"):
        assert part in text
    assert tab.run("document.querySelectorAll('section svg g rect').length") > 8 * 5
    assert "addBatch 70 ms" in tab.run("document.querySelector('section svg title').textContent")


def test_the_page_shows_the_pace_of_a_query_that_has_one(
    tab: Tab, server: WebServer, program: Program
) -> None:
    tab.open(server.address)
    tab.wait_for(LIVE)
    assert tab.run("document.querySelector('svg .target')") is None
    program.queries = [paced()]
    tab.wait_for("document.body.innerText.includes('1,200 rows (grow)')")
    assert "102 ms of 10.0 s" in tab.text()
    assert tab.run("document.querySelector('svg .target title').textContent") == "pace: 10.0 s"


def test_the_page_updates_when_the_queries_change(
    tab: Tab, server: WebServer, program: Program
) -> None:
    tab.open(server.address)
    tab.wait_for(LIVE)
    more = tuple(batch(number) for number in range(9))
    program.queries = [snapshot(batch_id=8, batches=more), snapshot(id="b", name="second")]
    tab.wait_for("document.body.innerText.includes('second')")
    assert "2 queries" in tab.text()
    assert tab.run("document.querySelectorAll('section').length") == 2
    program.queries = [snapshot(condition="failed", error="ValueError: boom")]
    tab.wait_for("document.body.innerText.includes('ValueError: boom')")
    tab.wait_for("document.querySelectorAll('section').length === 1")
    assert "unhealthy" in tab.text()
    assert tab.run(f"{STOP}.hidden")


def test_names_never_become_markup(tab: Tab, server: WebServer, program: Program) -> None:
    evil = "<img src=x onerror='window.bad = true'>"
    program.queries = [snapshot(name=evil, error=evil, status=evil, options={evil: evil})]
    tab.open(server.address)
    tab.wait_for(LIVE)
    assert evil in tab.text()
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("window.bad") is None


def test_a_query_is_stopped_with_the_token_of_the_address(
    tab: Tab, server: WebServer, program: Program
) -> None:
    tab.open(server.address)
    tab.wait_for(LIVE)
    assert "token" not in tab.run("location.href")
    tab.run(f"{STOP}.click()")
    assert tab.run(f"{DIALOG}.open")
    assert tab.run("document.getElementById('token-row').hidden")
    tab.run("document.getElementById('no').click()")
    assert program.stopped == []
    tab.run(f"{STOP}.click()")
    tab.run("document.getElementById('yes').click()")
    tab.wait_for(f"!{DIALOG}.open")
    assert program.stopped == [snapshot().run_id]
    tab.wait_for("document.querySelector('.pill').textContent === 'stopping'")
    assert tab.run(f"{STOP}.disabled")


def test_a_stop_without_the_token_prompts_for_it(
    tab: Tab, server: WebServer, program: Program
) -> None:
    tab.open(server.url)
    tab.wait_for(LIVE)
    tab.run("sessionStorage.clear()")
    tab.run(f"{STOP}.click()")
    assert not tab.run("document.getElementById('token-row').hidden")
    tab.run("document.getElementById('token').value = 'wrong'")
    tab.run("document.getElementById('yes').click()")
    tab.wait_for("document.getElementById('answer').textContent.includes('wrong')")
    assert program.stopped == []
    tab.run("document.getElementById('token').value = 'the-token'")
    tab.run("document.getElementById('yes').click()")
    tab.wait_for(f"!{DIALOG}.open")
    assert program.stopped == [snapshot().run_id]


def test_a_valid_token_is_kept_after_another_error(
    tab: Tab, server: WebServer, program: Program
) -> None:
    program.runs = False
    tab.open(server.address)
    tab.wait_for(LIVE)
    tab.run(f"{STOP}.click()")
    tab.run("document.getElementById('yes').click()")
    tab.wait_for(
        "document.getElementById('answer').textContent === 'no active query has this run id'"
    )
    assert tab.run("sessionStorage.getItem('token')") == "the-token"
    assert tab.run("document.getElementById('token-row').hidden")
    program.runs = True
    tab.run("document.getElementById('yes').click()")
    tab.wait_for(f"!{DIALOG}.open")
    assert program.stopped == [snapshot().run_id]


def test_the_dialog_shows_that_the_program_does_not_respond(tab: Tab, program: Program) -> None:
    server = WebServer(0, "127.0.0.1", "the-token", program.source, program.stop)
    tab.open(server.address)
    tab.wait_for(LIVE)
    tab.run(f"{STOP}.click()")
    server.stop()
    tab.wait_for("document.getElementById('link').textContent.includes('does not respond')")
    tab.run("document.getElementById('yes').click()")
    tab.wait_for("document.getElementById('answer').textContent.includes('does not respond')")
    assert tab.run(f"{DIALOG}.open")
    assert tab.run("sessionStorage.getItem('token')") == "the-token"


def test_the_page_shows_that_the_program_does_not_respond(tab: Tab, program: Program) -> None:
    server = WebServer(0, "127.0.0.1", "the-token", program.source, program.stop)
    tab.open(server.address)
    tab.wait_for(LIVE)
    server.stop()
    tab.wait_for("document.getElementById('link').textContent.includes('does not respond')")
    assert "clicks" in tab.text()


def test_the_page_fits_a_small_screen(tab: Tab, server: WebServer) -> None:
    tab.size(420, 800)
    tab.open(server.address)
    tab.wait_for(LIVE)
    assert tab.run("document.documentElement.scrollWidth") <= 420
