"""A small HTTP server on a background thread, on `http.server` of the standard library."""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import urlsplit

_logger = logging.getLogger(__name__)

_LARGEST_BODY = 64 * 1024
_LENGTH = re.compile(r"[0-9]{1,18}")

_Server = TypeVar("_Server", bound="HttpServer")


@dataclass(frozen=True)
class Request:
    """An HTTP request. `path` has no query string; the names in `headers` are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, document: object, status: int = 200) -> Response:
        body = json.dumps(document, allow_nan=False).encode()
        return cls(status, body, "application/json")

    @classmethod
    def error(cls, status: int, message: str) -> Response:
        return cls.json({"error": message}, status)


class HttpServer:
    """Serves requests until `stop` is called, each on its own thread.

    With port 0 any free port is used; `port` returns it. As a context manager, the server is
    stopped at the end of the block. Raises OSError if it cannot listen on the address.
    """

    def __init__(self, name: str, host: str, port: int, answer: Callable[[Request], Response]):
        self.host = host
        handler = _handler_for(answer)
        self._server = _server_class(host)((host, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The URL of the server, as seen from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def stop(self) -> None:
        """Stop serving and close the socket. Calling it again has no effect."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self: _Server) -> _Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address, which is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_is_expected(header: str | None, bound_to: str) -> bool:
    """Whether a Host header is one of this server; protects against DNS rebinding.

    Accepts IP addresses, `localhost`, the host name of the machine and the host that the server is
    bound to. Any other name may have been resolved to this address by a foreign web page that
    tries to read the server through a browser. A missing or invalid header is not accepted.
    """
    try:
        name = urlsplit(f"//{header or ''}").hostname
        if name is None:
            return False
        if name not in ("localhost", bound_to.lower(), socket.gethostname().lower()):
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            _logger.debug("A request from %s failed", client_address, exc_info=True)

    return Server


class _Handler(BaseHTTPRequestHandler):
    """Passes GET, HEAD and POST requests to `answer`, which a subclass sets."""

    protocol_version = "HTTP/1.0"  # one request per connection, so none outlives the server
    server_version = "penstock"
    sys_version = ""
    timeout = 30
    answer: Callable[[Request], Response]

    def do_GET(self) -> None:
        self._respond(self._answer("GET"))

    def do_HEAD(self) -> None:
        self._respond(self._answer("GET"), with_body=False)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if _LENGTH.fullmatch(length) is None:
            self._respond(Response.error(400, "Content-Length is not a number"))
        elif int(length) > _LARGEST_BODY:
            self._respond(Response.error(413, f"the body is larger than {_LARGEST_BODY} bytes"))
        else:
            self.rfile.read(int(length))
            self._respond(self._answer("POST"))

    def _answer(self, method: str) -> Response:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            path = urlsplit(self.path).path
        except ValueError:
            return Response.error(400, "the request target is not a valid URL")
        try:
            return self.answer(Request(method, path, headers))
        except Exception:
            _logger.warning("The request %s %s failed", method, self.path, exc_info=True)
            return Response.error(500, "internal error; see the log")

    def _respond(self, response: Response, *, with_body: bool = True) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        _logger.debug(format, *args)


def _handler_for(answer: Callable[[Request], Response]) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"answer": staticmethod(answer)})
