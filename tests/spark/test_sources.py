"""The sources that come with Spark and need no files: rate, rate-micro-batch, socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import write_stream
from tests.streams import column, eventually_of, has_committed, log_entries, logged_offsets


def test_rate_gives_consecutive_numbers_over_restarts(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    out = str(tmp_path / "out")
    for _ in range(2):
        rows = session.readStream.format("rate").option("rowsPerSecond", 50).load()
        writer = write_stream(rows).format("parquet")
        query = writer.option("checkpointLocation", str(checkpoint)).start(out)
        goal = len(log_entries(checkpoint, "commits")) + 2
        has_committed(query, goal - 1)
        query.stop()
    seen = column(session.read.parquet(out), "value")
    assert seen == list(range(len(seen)))
    assert seen


def test_rate_micro_batch_gives_so_many_rows_a_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
    writer = write_stream(rows).format("memory").queryName("rate_micro_batch")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    has_committed(query, 2)
    query.stop()
    assert [progress.numInputRows for progress in query.recentProgress[:3]] == [7, 7, 7]
    assert logged_offsets(checkpoint, 1)[0]["offset"] == 14
    seen = column(session.table("rate_micro_batch"), "value")
    assert seen == list(range(len(seen)))


class LineServer:
    """A TCP server that sends lines to its client."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self._client: socket.socket | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def send(self, *lines: str) -> None:
        if self._client is None:
            self._client, _ = self._listener.accept()
        self._client.sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[LineServer]:
    lines = LineServer()
    yield lines
    lines.close()


def test_socket_gives_every_line_once(session: SparkSession, server: LineServer) -> None:
    reader = session.readStream.format("socket").option("host", "127.0.0.1")
    lines = reader.option("port", server.port).load()
    query = write_stream(lines).format("memory").queryName("socket_lines").start()
    server.send("a", "b")
    eventually_of(query, lambda: session.table("socket_lines").count() == 2, "two lines")
    server.send("c")
    eventually_of(query, lambda: session.table("socket_lines").count() == 3, "the third line")
    query.stop()
    assert column(session.table("socket_lines")) == ["a", "b", "c"]
    assert query.exception() is None
