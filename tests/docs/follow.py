"""Follows pages that need Spark, in one process with one Spark: `python -m tests.docs.follow`.

In a process of its own because relative paths, of which the pages are full, mean to Spark what
they meant when its JVM was started: that is to be the directory this is run in.
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
from penstock.spark.jvm.quiet import quiet_session
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
    """What the page about operating takes for granted: a job, and a query that runs."""
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
    """Do what a page says, from an empty directory."""
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
        _spark()  # which the doctor would stop
    try:
        reader.follow(block)
    except BaseException:
        traceback.print_exc()
        sys.exit(f"{block} does not work:\n{block.text}")
    print(f"{block} works ({time.monotonic() - begun:.1f} s)", flush=True)


if __name__ == "__main__":
    if any(Path().iterdir()):
        sys.exit("run this in an empty directory: what is in it is removed before each page")
    for name in sys.argv[1:]:
        follow(name)
