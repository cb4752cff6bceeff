"""The Hadoop file layer: the file contract, and queries whose checkpoint uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import DataStreamWriter, StreamingQueryException, read_stream, write_stream
from penstock.checkpoint import CheckpointFiles
from penstock.engine.faults import FaultPoint
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.hadoop_files import HadoopFiles
from tests.checkpoint.file_contract import FileContract
from tests.streams import Numbers, class_beside, column, log_entries, write_struck

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"


class TestHadoopFiles(FileContract):
    """The file contract on Hadoop's checksummed local file system.

    Of two concurrent creators of a file, both may succeed there: see docs/limits.md.
    """

    @pytest.fixture(autouse=True)
    def use(self, spark: SparkSession) -> None:
        self.session = spark

    def make_files(self, root: Path) -> CheckpointFiles:
        conf = self.session._jsparkSession.sessionState().newHadoopConf()
        return HadoopFiles(Jvm.of(self.session), f"file:{root}", conf)

    def test_listing_gives_files_of_every_kind_and_no_directories(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        """As in the contract, except for checksum files, which Hadoop may leave out."""
        for name in ("0", "10", ".0.crc", ".2.uuid.tmp", "stranger.txt", "3/below"):
            (root / "offsets" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "offsets" / name).write_bytes(b"x")
        listed = set(files.list_names("offsets"))
        assert listed - {".0.crc"} == {"0", "10", ".2.uuid.tmp", "stranger.txt"}


@pytest.mark.parametrize(
    "manager", ["FileContextBasedCheckpointFileManager", "FileSystemBasedCheckpointFileManager"]
)
def test_a_query_runs_and_resumes_through_the_file_manager_that_is_configured(
    session: SparkSession, tmp_path: Path, checkpoint: Path, manager: str
) -> None:
    session.conf.set(MANAGER_SETTING, class_beside(session, "CheckpointFileManager", manager))
    out = str(tmp_path / "out")

    def writer_to(available: int) -> DataStreamWriter:
        rows = read_stream(Numbers(available, at_most=2), session)
        writer = write_stream(rows).format("parquet")
        return writer.option("checkpointLocation", str(checkpoint))

    struck = write_struck(writer_to(4), FaultPoint.BEFORE_COMMIT_LOG, 1)
    with pytest.raises(StreamingQueryException, match="before_commit_log"):
        struck.start(out).awaitTermination()
    assert (checkpoint / "offsets" / ".1.crc").exists()
    assert log_entries(checkpoint, "commits") == [0]
    query = writer_to(6).start(out)
    query.processAllAvailable()
    query.stop()
    assert column(session.read.parquet(out)) == [0, 1, 2, 3, 4, 5]
    assert log_entries(checkpoint, "commits") == [0, 1, 2]


def test_a_local_checkpoint_needs_no_hadoop_and_leaves_no_checksums(
    session: SparkSession, checkpoint: Path
) -> None:
    writer = write_stream(read_stream(Numbers(1), session)).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    assert not list((checkpoint / "offsets").glob(".*"))
