"""An S3 server on loopback that records its requests, delays them, and fails on demand.

A program for the environment `.venv-stores`: python s3_server.py PORT. Moto answers the requests,
one at a time, since it checks the condition of a write and writes without a lock in between.

    GET    /_control    the requests so far, as JSON: [{"method": ..., "path": ..., "status": ...}]
    POST   /_control    {"delay_ms": 30, "faults": [{"method": "PUT", "path": "/offsets/3$",
                        "kind": "lost", "times": 1}]}; both are optional
    DELETE /_control    forgets the requests and the faults

The kinds of faults: `fail` answers 500 without doing the request, `slow-down` 503, `expired` 403;
`lost` does it and closes the connection, `rejected-after` does it and answers 500, `held` does it
and does not answer for a minute.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

_CONTROL = "/_control"
_ERRORS = {
    "fail": ("500 Internal Server Error", "InternalError"),
    "rejected-after": ("500 Internal Server Error", "InternalError"),
    "slow-down": ("503 Slow Down", "SlowDown"),
    "expired": ("403 Forbidden", "ExpiredToken"),
}
_DOES_IT = ("lost", "held", "rejected-after")

Start = Callable[..., Any]


class Recorder:
    """WSGI middleware around Moto."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()
        self._requests: list[dict[str, Any]] = []
        self._faults: list[dict[str, Any]] = []
        self._delay = 0.0

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(_CONTROL):
            return self._control(environ, start)
        record = {
            "method": environ["REQUEST_METHOD"],
            "path": environ["PATH_INFO"],
            "query": environ.get("QUERY_STRING", ""),
            "status": 0,
        }
        with self._lock:
            self._requests.append(record)
            kind = self._fault_of(record)
            delay = self._delay
        time.sleep(delay)
        if kind is not None and kind not in _DOES_IT:
            return self._refuse(kind, record, start)
        with self._one_at_a_time:
            status, headers, body = self._answer(environ)
        record["status"] = int(status.split()[0])
        if kind == "held":
            time.sleep(60)
        if kind in ("held", "lost"):
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        if kind is not None:
            return self._refuse(kind, record, start)
        start(status, headers)
        return [] if record["method"] == "HEAD" else body

    def _answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], list[bytes]]:
        given: list[Any] = []
        body = list(self._app(environ, lambda status, headers, *_: given.extend((status, headers))))
        return given[0], given[1], body

    def _refuse(self, kind: str, record: dict[str, Any], start: Start) -> list[bytes]:
        status, code = _ERRORS[kind]
        record["status"] = int(status.split()[0])
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{kind}</Message></Error>"
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))])
        return [] if record["method"] == "HEAD" else [text.encode()]

    def _fault_of(self, record: dict[str, Any]) -> str | None:
        for fault in self._faults:
            fits = fault.get("method", record["method"]) == record["method"]
            if fits and fault["times"] > 0 and re.search(fault.get("path", ""), record["path"]):
                fault["times"] -= 1
                return str(fault["kind"])
        return None

    def _control(self, environ: dict[str, Any], start: Start) -> list[bytes]:
        method = environ["REQUEST_METHOD"]
        with self._lock:
            answer = json.dumps(self._requests).encode()
            if method == "POST":
                length = int(environ.get("CONTENT_LENGTH") or 0)
                told = json.loads(environ["wsgi.input"].read(length))
                self._delay = told.get("delay_ms", self._delay * 1000) / 1000
                self._faults = told.get("faults", self._faults)
            elif method == "DELETE":
                self._requests.clear()
                self._faults = []
        start(
            "200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))]
        )
        return [answer]


class QuietHandler(WSGIRequestHandler):  # type: ignore[misc]  # werkzeug is not installed here
    """Keeps connections open between requests, and writes no log."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Writes nothing: `Recorder` has the requests."""


def main() -> None:
    app = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        Recorder(app),
        threaded=True,
        request_handler=QuietHandler,
    )


if __name__ == "__main__":
    main()
