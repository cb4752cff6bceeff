"""The HTTP server of the live page, which shows the queries and can stop them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from penstock.api.manager import stop_run_at_boundary
from penstock.observe.health import DEFAULT_STALL_SECONDS, check_health
from penstock.observe.observatory import snapshots
from penstock.observe.snapshot import QuerySnapshot
from penstock.web.http import HttpServer, Request, Response, host_is_expected, is_loopback

TOKEN_VARIABLE = "PENSTOCK_WEB_TOKEN"
"""The environment variable with the token to use instead of a random one."""

TOKEN_HEADER = "x-penstock-token"
_NOT_FOUND = Response.error(404, "not found")

_STOP = re.compile(r"/api/queries/(?P<run_id>[0-9a-fA-F-]{1,64})/stop")


class WebServer(HttpServer):
    """Serves the page, its data, and the request to stop a query at its batch boundary.

    On a loopback address the data can be read without the token, unless the Host header is a name
    that is not one of this machine: that of a proxy, or one that a foreign page has resolved to the
    address. On any other address reading requires the token, and stopping a query always does.

    The token is accepted in a header of its own only. Browsers do not send one to another origin
    unless the server allows it in the answer to a preflight request, which this one does not.
    Therefore neither Host nor Origin of a request with the token matters: behind a proxy they may
    be those of the proxy.
    """

    def __init__(
        self,
        port: int,
        host: str,
        token: str,
        source: Callable[[], Sequence[QuerySnapshot]] = snapshots,
        stop_run: Callable[[str], bool] = stop_run_at_boundary,
        stall_seconds: float = DEFAULT_STALL_SECONDS,
    ) -> None:
        self.token = token
        self._source = source
        self._stop_run = stop_run
        self._stall_seconds = stall_seconds
        self._page = _page()
        super().__init__("penstock web", host, port, self._answer)

    @property
    def address(self) -> str:
        """The URL of the page with the token after `#`, which browsers do not send."""
        return f"{self.url}#token={self.token}"

    def _answer(self, request: Request) -> Response:
        if request.path == "/" and request.method == "GET":
            return self._page
        if request.path == "/api/queries" and request.method == "GET":
            if not (self._is_open_to(request) or self._has_token(request)):
                return Response.error(401, "the token is missing or wrong")
            return Response.json(self._document())
        stop = _STOP.fullmatch(request.path)
        if stop and request.method == "POST":
            return self._stop_query(request, stop["run_id"])
        return Response.error(405, "only POST is supported") if stop else _NOT_FOUND

    def _document(self) -> dict[str, Any]:
        queries = list(self._source())
        return {
            "now": time.time(),
            "health": check_health(queries, self._stall_seconds).to_dict(),
            "queries": [query.to_dict() for query in queries],
        }

    def _stop_query(self, request: Request, run_id: str) -> Response:
        if not self._has_token(request):
            return Response.error(403, "the token is missing or wrong")
        if not self._stop_run(run_id):
            return Response.error(404, "no active query has this run id")
        return Response.json({"stopping": run_id}, 202)

    def _is_open_to(self, request: Request) -> bool:
        """Whether the request may read without the token."""
        return is_loopback(self.host) and host_is_expected(request.headers.get("host"), self.host)

    def _has_token(self, request: Request) -> bool:
        given = request.headers.get(TOKEN_HEADER, "")
        return hmac.compare_digest(given.encode(), self.token.encode())


def serve_web(
    port: int,
    host: str = "127.0.0.1",
    *,
    token: str | None = None,
    stall_seconds: float = DEFAULT_STALL_SECONDS,
) -> WebServer:
    """Serve the live page of the queries of this process.

    `address` of the returned server is the URL to open. Without `token`, the token is that of the
    environment variable PENSTOCK_WEB_TOKEN, or a random one. By default the server listens on the
    loopback address only; with another `host`, and through a proxy that passes its own name on in
    the Host header, reading requires the token too. With port 0 any free port is used. Raises
    OSError if it cannot listen on the address. Call `stop` of the returned server, or use it as a
    context manager, to end it.

        server = penstock.serve_web(8080)
        print(server.address)
    """
    chosen = token or os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(16)
    return WebServer(port, host, chosen, stall_seconds=stall_seconds)


def _page() -> Response:
    """The page, with a Content-Security-Policy that allows only its own script and style."""
    html = files("penstock.web").joinpath("page.html").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; "
        f"script-src {_digest(html, 'script')}; style-src {_digest(html, 'style')}"
    )
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    return Response(200, html.encode(), "text/html; charset=utf-8", headers)


def _digest(html: str, element: str) -> str:
    inner = re.search(rf"<{element}>(.*?)</{element}>", html, re.DOTALL)
    assert inner is not None
    digest = hashlib.sha256(inner[1].encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
