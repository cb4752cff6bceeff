"""A real browser, driven through its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_MS = 20_000
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LAUNCH = (
    "import os, sys\n"
    "os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str:
    """The path of the browser. Fails the test with instructions if there is none."""
    wanted = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else list(_NAMES)
    for name in wanted:
        if (found := shutil.which(name)) is not None:
            return found
    pytest.fail(
        f"no browser: none of {', '.join(wanted)} is installed. Install chromium (Debian: apt-get "
        "install chromium), or say where it is: make test-web CHROMIUM=/path/to/chromium",
        pytrace=False,
    )


class Tab:
    """A page in the browser."""

    def __init__(self, browser: Browser, session_id: str) -> None:
        self._browser = browser
        self._session = session_id
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method: str, **params: Any) -> Any:
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true in the page, also while it is loading."""
        script = (
            f"new Promise(done => {{ const end = Date.now() + {PATIENCE_MS}; (function look() {{"
            f"  let is = false; try {{ is = Boolean({condition}); }} catch (error) {{}}"
            "  if (is || Date.now() > end) done(is); else setTimeout(look, 20); })(); })"
        )
        assert self.run(script), f"{condition} did not come true; the page: {self.text()}"

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def save_picture(self, path: str | Path) -> None:
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(picture))

    def complaints(self) -> list[str]:
        """The errors of the browser: script errors and blocked resources."""
        return [
            json.dumps(event["params"])
            for event in self._browser.events
            if event["method"] == "Runtime.exceptionThrown"
            or (
                event["method"] == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"
                and event["params"]["entry"]["source"] != "network"
            )
        ]


class Browser:
    """A running browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    def tab(self) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        return Tab(self, attached["sessionId"])

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def close(self) -> None:
        self._commands.close()
        self._answers.close()

    def _receive(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has gone"
            text += byte
        message: dict[str, Any] = json.loads(text)
        return message


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless browser with a temporary profile, closed at the end of the block."""
    program = find_chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_read, to_send = _high_pipe()
        to_receive, to_write = _high_pipe()
        arguments = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]
        arguments += ["--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(to_read), str(to_write), program, *arguments],
            pass_fds=(to_read, to_write),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        browser = Browser(to_send, to_receive)
        try:
            yield browser
        finally:
            with contextlib.suppress(Exception):
                browser.call("Browser.close")
            browser.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _high_pipe() -> tuple[int, int]:
    """A pipe whose file descriptors are at least 10, since the browser uses 3 and 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
