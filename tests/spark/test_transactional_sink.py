"""A table of a transactional catalog: each batch is one transaction, as with Spark's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import write_stream
from penstock.spark.jvm.gateway import Jvm
from tests.spark.driver_classes import add_driver_classes
from tests.streams import LineFiles

pytestmark = pytest.mark.since("4.2", "catalogs with transactions")

SOURCE = Path(__file__).with_name("TransactionalCatalog.java")


@pytest.fixture
def events(
    session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], list[str]]]:
    """The events of the transactions of the catalog `ledger` in this test."""
    jvm = Jvm.of(session)
    loader = add_driver_classes(jvm, SOURCE, tmp_path_factory.mktemp("classes"))
    catalog = loader.loadClass("TransactionalCatalog")
    noted = catalog.getMethod("events", None).invoke(None, None)
    seen = len(noted)
    session.conf.set("spark.sql.catalog.ledger", "TransactionalCatalog")
    # Spark's own writer reads the catalog's class from the settings of the active session.
    sessions = jvm.cls("ClassicSession")
    sessions.setActiveSession(session._jsparkSession)
    yield lambda: list(noted)[seen:]
    sessions.clearActiveSession()


@pytest.mark.parametrize("engine", ["spark", "penstock"])
def test_every_batch_is_one_transaction(
    session: SparkSession,
    checkpoint: Path,
    tmp_path: Path,
    events: Callable[[], list[str]],
    engine: str,
) -> None:
    files = LineFiles(tmp_path / "in")
    rows = files.stream(session)
    for word in "abc":
        files.add(word)
    writer = rows.writeStream if engine == "spark" else write_stream(rows)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.toTable("ledger.default.entries").awaitTermination()
    assert events() == ["begin", "commit", "close"] * 3
