"""Spark forks no process for the state files of a local checkpoint: see docs/adr/0030."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import write_stream
from penstock.errors import UnsupportedError
from penstock.spark.jvm import local_file_system as module
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import bytecode
from penstock.spark.jvm.java_sources import JavaFile
from penstock.spark.jvm.local_file_system import RAW_FILE_SYSTEM, local_file_system
from penstock.spark.session.stream_session import SparkStreamSession
from tests.streams import LineFiles, column

OWN_FILE_SYSTEM = "org.apache.hadoop.fs.PenstockFileSystem"

LOGGED_CHMOD = """#!/bin/sh
echo "$@" >> "{log}"
exec /bin/chmod "$@"
"""

PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from penstock import write_stream
from penstock.spark.jvm.java_home import prepare_environment

PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.executor.memory": "512m",
}

def take(df, batch_id):
    df.collect()

def run(session, provider, writer_of, checkpoint):
    own = session.newSession()
    own.conf.set("spark.sql.streaming.stateStore.providerClass", f"{PROVIDERS}.{provider}")
    lines = own.readStream.option("maxFilesPerTrigger", 1).text(sys.argv[2])
    writer = writer_of(lines.dropDuplicates(["value"])).foreachBatch(take)
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
    writer.start().awaitTermination()

master, lines, root, applications, *providers = sys.argv[1:]
prepare_environment()
for number in range(int(applications)):
    builder = SparkSession.builder.master(master)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for provider in providers:
        name = f"{provider}/{number}"
        run(session, provider, lambda df: df.writeStream, Path(root, "spark", name))
        run(session, provider, write_stream, Path(root, "penstock", name))
    session.stop()
"""


def state_paths_of_chmod(tmp_path: Path, *arguments: str) -> list[str]:
    """Run the program and return the files of state and sources that `chmod` was run for.

    Spark runs the `chmod` that comes first in PATH, which here records its arguments.
    """
    tools, log, root = tmp_path / "tools", tmp_path / "chmod.log", tmp_path / "root"
    tools.mkdir()
    log.touch()
    chmod = tools / "chmod"
    chmod.write_text(LOGGED_CHMOD.format(log=log))
    chmod.chmod(0o755)
    files = LineFiles(tmp_path / "in")
    files.add("a", "b", "a")
    files.add("b", "c")
    master, *others = arguments
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, master, str(files.directory), str(root), *others],
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    paths = [line.split()[-1] for line in log.read_text().splitlines() if line]
    return [
        path.removeprefix(f"{root}/")
        for path in paths
        if path.startswith(str(root)) and {"state", "sources"} & set(Path(path).parts)
    ]


@pytest.mark.parametrize(
    "provider",
    [
        "HDFSBackedStateStoreProvider",
        pytest.param("RocksDBStateStoreProvider", marks=pytest.mark.extended),
    ],
)
def test_none_for_state_in_any_application_of_a_process(provider: str, tmp_path: Path) -> None:
    paths = state_paths_of_chmod(tmp_path, "local[2]", "2", provider)
    for number in ("0", "1"):
        of_spark = f"spark/{provider}/{number}/"
        assert [path for path in paths if path.startswith(of_spark)], of_spark
    assert [path for path in paths if path.startswith("penstock/")] == []


@pytest.mark.extended
def test_executors_in_other_processes_use_hadoop_s_own_file_system(tmp_path: Path) -> None:
    provider = "HDFSBackedStateStoreProvider"
    paths = state_paths_of_chmod(tmp_path, "local-cluster[1,1,512]", "1", provider)
    assert [path for path in paths if path.startswith("penstock/") and path.endswith(".tmp")]


def test_tasks_find_the_file_system_by_its_name(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    assert local_file_system(jvm) == OWN_FILE_SYSTEM
    found = jvm.java_class(OWN_FILE_SYSTEM)
    hadoop = jvm.java_class(RAW_FILE_SYSTEM)
    assert found.getClassLoader().equals(hadoop.getClassLoader())
    assert found.getSuperclass().equals(hadoop)


def test_it_is_defined_once_in_a_jvm(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    first = local_file_system(jvm)
    another = Jvm(jvm.gateway)
    another._java_side = jvm.java
    assert local_file_system(another) == first


def test_without_it_state_is_written_by_hadoop_s_own(
    session: SparkSession, tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = Jvm.of(session)
    assert local_file_system(jvm) == OWN_FILE_SYSTEM
    broken = JavaFile("PenstockFileSystem.java", "public class PenstockFileSystem extends Gone {}")
    monkeypatch.setattr(module, "file_system_source", lambda: broken)
    monkeypatch.delitem(jvm._made, "local file system")
    with pytest.raises(UnsupportedError, match=r"PenstockFileSystem\.java, line 1: .*Gone"):
        bytecode(jvm, [broken], "org.apache.hadoop.fs")
    lines = LineFiles(tmp_path / "in")
    for arriving in (["a", "b", "a"], ["b", "c"]):
        lines.add(*arriving)
        writer = write_stream(lines.stream(session).dropDuplicates(["value"])).format("parquet")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start(str(tmp_path / "out")).awaitTermination()
    assert column(session.read.parquet(str(tmp_path / "out"))) == ["a", "b", "c"]
    assert local_file_system(jvm) == RAW_FILE_SYSTEM


def test_a_directory_keeps_the_group_that_it_hands_down(
    session: SparkSession, tmp_path: Path
) -> None:
    own = SparkStreamSession(session)
    own.use_direct_files()
    paths = own.jvm.cls("org.apache.hadoop.fs.Path")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2777)
    inner, file = tmp_path / "shared" / "inner", tmp_path / "shared" / "inner" / "file"
    files = paths(f"FILE:{file}").getFileSystem(own.hadoop_conf())
    assert files.getClass().getName() == OWN_FILE_SYSTEM
    files.create(paths(f"FILE:{file}")).close()
    assert inner.stat().st_mode & 0o7777 == 0o2755
    assert file.stat().st_mode & 0o7777 == 0o644
    permission = own.jvm.cls("org.apache.hadoop.fs.permission.FsPermission")
    for mode in (0o1777, 0o700):
        files.setPermission(paths(f"FILE:{inner}"), permission(f"{mode:o}"))
        assert inner.stat().st_mode & 0o7777 == 0o2000 | mode
