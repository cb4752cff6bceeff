"""An S3 server on loopback, and the settings of a session that reads and writes it with S3A."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.real.jars import installed_line
from tests.real.parts import ROOT, MissingPartError, fetch
from tests.real.servers import LOOPBACK, Server, ending_with_parent, free_port, is_listening

HADOOP = {"3.5": "3.3.4", "4.0": "3.4.1", "4.1": "3.4.2", "4.2": "3.5.0", "4.3": "3.5.0"}
"""The version of Hadoop in PySpark's wheel, by line of Spark."""

SDK_VERSION = "2.35.4"
SDK_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
"""What S3A needs of the AWS SDK: 15 MB instead of the 690 MB of its bundle."""

ACCELERATOR = "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.0"
BUCKET = "penstock"
OLD_BUCKET = "penstock-old"
"""A bucket to which S3A does not write conditionally, as all of them before Hadoop 3.4.2."""

_SOMEONE = (
    "AWS4-HMAC-SHA256 Credential=someone/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=unchecked"
)
PYTHON = ROOT / ".venv-stores" / "bin" / "python"


def s3a_connector(line: str | None = None) -> tuple[Path, ...]:
    """The jars of the S3A connector, for a line of Spark; by default the installed one."""
    hadoop = HADOOP[line or installed_line()]
    sdk = [f"software.amazon.awssdk:{module}:{SDK_VERSION}" for module in SDK_MODULES]
    return (
        *fetch(f"s3a-{hadoop}", f"org.apache.hadoop:hadoop-aws:{hadoop}", ACCELERATOR),
        *fetch("aws-sdk", *sdk, transitive=True),
    )


def hadoop_cloud() -> tuple[Path, ...]:
    """Spark's file manager for abortable streams. The jar of 4.1 is the newest there is."""
    return fetch("spark-hadoop-cloud", "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2")


class S3Server(Server):
    """The server of `s3_server.py`, with two buckets. Its objects are in memory."""

    name = "the S3 server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "s3.log")
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> Sequence[str]:
        if not PYTHON.exists():
            raise MissingPartError(f"{PYTHON} does not exist. Create it with: make test-stores")
        program = Path(__file__).with_name("s3_server.py")
        return [*ending_with_parent(), str(PYTHON), str(program), str(self.port)]

    def is_ready(self) -> bool:
        return is_listening(self.port)

    def start(self) -> None:
        super().start()
        self._request("PUT", f"/{BUCKET}")
        self._request("PUT", f"/{OLD_BUCKET}")
        self.forget()

    def conf(self) -> dict[str, str]:
        """The settings of a session, to be used with the jars of `s3a_connector`."""
        settings = {
            "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": "someone",
            "secret.key": "something",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            f"bucket.{OLD_BUCKET}.create.conditional.enabled": "false",
        }
        conf = {f"spark.hadoop.fs.s3a.{key}": value for key, value in settings.items()}
        return {
            **conf,
            "spark.hadoop.fs.AbstractFileSystem.s3a.impl": "org.apache.hadoop.fs.s3a.S3A",
        }

    # What the server was asked, and what it does next.

    def requests(self) -> list[dict[str, Any]]:
        """The requests since the last `forget`: method, path, query, status."""
        found: list[dict[str, Any]] = json.loads(self._request("GET", "/_control"))
        return found

    def forget(self) -> None:
        """Forget the requests, and the faults that have not occurred."""
        self._request("DELETE", "/_control")

    def delay(self, milliseconds: float) -> None:
        """Delay every answer from now on."""
        self._tell({"delay_ms": milliseconds})

    def fail(self, kind: str, path: str = "", method: str | None = None, times: int = 1) -> None:
        """Let the next requests for a path (a regular expression) fail; see `s3_server`."""
        fault = {"kind": kind, "path": path, "times": times}
        self.fail_all(fault if method is None else {**fault, "method": method})

    def fail_all(self, *faults: Mapping[str, Any]) -> None:
        """Let requests fail; of several faults that fit a request, the first one that is left."""
        self._tell({"faults": faults})

    def _tell(self, what: Mapping[str, Any]) -> None:
        self._request("POST", "/_control", json.dumps(what).encode())

    # Objects.

    def keys(self, prefix: str = "") -> list[str]:
        """The names of the objects below a prefix of the bucket."""
        text = self._request("GET", f"/{BUCKET}?list-type=2&max-keys=100000&prefix={prefix}")
        return [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]

    def read(self, key: str) -> str:
        return self._request("GET", f"/{BUCKET}/{key}")

    def delete(self, key: str) -> None:
        self._request("DELETE", f"/{BUCKET}/{key}")

    def _request(self, method: str, path: str, data: bytes | None = None) -> str:
        headers = {"Authorization": _SOMEONE}
        request = urllib.request.Request(f"{self.endpoint}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
            return text


def counted(requests: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The number of requests by method."""
    return Counter(str(request["method"]) for request in requests)
