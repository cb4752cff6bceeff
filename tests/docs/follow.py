"""Runs the blocks of pages that need Spark, with one session: `python -m tests.docs.follow`.

It is a separate process because the pages use relative paths, which Spark resolves against the
working directory of its JVM: the directory in which this is run.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import penstock
from penstock.api.quiet_session import quiet_session
from tests.docs.blocks import EXECUTED, ROOT, Block, blocks_of
from tests.docs.reader import Reader

_JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = numbers.writeStream.format("noop").option("checkpointLocation", "checkpoints/job")
writer.trigger(once=True).start().awaitTermination()
"""


def _spark() -> Any:
    return quiet_session("penstock docs", os.devnull, short_lived=True)


@contextmanager
def _nothing() -> Iterator[dict[str, Any]]:
    yield {}


@contextmanager
def _running_query() -> Iterator[dict[str, Any]]:
    """The variables that the pages use without defining them: a job and a running query."""
    Path("job.py").write_text(_JOB)
    numbers = _spark().readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    df = numbers.withWatermark("timestamp", "10 seconds")
    writer = penstock.write_stream(df).format("noop").trigger(processingTime="1 hour")
    query = writer.option("checkpointLocation", "checkpoints/clicks").start()
    while query.lastProgress is None:
        assert not query.awaitTermination(1)
    names: dict[str, Any] = {
        "penstock": penstock,
        "logging": logging,
        "query": query,
        "df": df,
        "handler": logging.StreamHandler(),
    }
    try:
        yield names
    finally:
        query.stop()
        if "watch" in names:
            names["watch"].stop()


_SETTINGS: dict[str, Callable[[], AbstractContextManager[dict[str, Any]]]] = {
    "operate.md": _running_query,
    "engine.md": _running_query,
}


def follow(page: str) -> None:
    """Run the blocks of a page, starting with an empty directory."""
    for path in Path().iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    setting = _SETTINGS.get(page, _nothing)
    with setting() as names:
        reader = Reader(names)
        for block in blocks_of(ROOT / "docs" / page):
            if block.kind in EXECUTED:
                _follow_block(reader, block)


def _follow_block(reader: Reader, block: Block) -> None:
    begun = time.monotonic()
    if "penstock doctor" not in block.text:
        _spark()  # not for the doctor, which would stop it
    try:
        reader.follow(block)
    except BaseException:
        traceback.print_exc()
        sys.exit(f"{block} does not work:\n{block.text}")
    print(f"{block} works ({time.monotonic() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    if any(Path().iterdir()):
        sys.exit("run this in an empty directory: its contents are removed before each page")
    for name in sys.argv[1:]:
        follow(name)
