"""The runs of `penstock crashtest`: shared restarts, progress lines, interruption and resumption.

The script that is killed does not use Spark: it reaches the fault points of two batches and writes
files.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.engine.faults import FaultPoint
from penstock.errors import ExecutionError
from penstock.testing import crash_folder
from penstock.testing.brief import in_brief
from penstock.testing.crash_faults import BatchPoint
from penstock.testing.crash_process import DEFAULT_ARGUMENTS, ScriptRun
from penstock.testing.crash_script import CrashResults, crash_test_script
from penstock.testing.crash_state import state_digest

CHILD = """#!{python}
import os, pathlib, signal, sys, time, uuid

record, kill_at, options, script, checkpoint, output = sys.argv[3:]
here = pathlib.Path(script).parent
with open(here / "runs", "a") as runs:
    runs.write(kill_at + chr(10))
log = pathlib.Path(checkpoint) / "log"
log.parent.mkdir(exist_ok=True)

def reach(point):
    if point == kill_at and (here / "misses").exists():
        return
    with open(record, "a") as file:
        file.write(point + chr(10))
    if point == kill_at:
        if (here / "block").exists() and point == (here / "block").read_text():
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)

done = log.read_text().split() if log.exists() else []
for batch in "01":
    if batch + "c" in done:
        continue
    reach("before_offset_log:" + batch)
    if batch not in done:
        log.write_text(" ".join([*done, batch]))
        pathlib.Path(checkpoint, "id").write_text(str(uuid.uuid4()))
    reach("after_offset_log:" + batch)
    reach("before_sink:" + batch)
    pathlib.Path(output).mkdir(exist_ok=True)
    if (here / "appends").exists():
        with open(output + "/rows", "a") as rows:
            rows.write(batch + chr(10))
    reach("after_sink:" + batch)
    reach("before_commit_log:" + batch)
    done = [*done, batch, batch + "c"]
    log.write_text(" ".join(done))
    reach("after_commit_log:" + batch)
"""

READER = """
from pathlib import Path

def read_output(workspace):
    rows = Path(workspace.output) / "rows"
    return rows.read_text().split() if rows.exists() else []
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script whose runs execute CHILD, which appends to its output."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "child").write_text(CHILD.format(python=sys.executable))
    (folder / "child").chmod(0o755)
    (folder / "reader.py").write_text(READER)
    (folder / "appends").touch()
    (folder / "job.py").write_text("# not read")
    monkeypatch.setattr(sys, "executable", str(folder / "child"))
    return folder / "job.py"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which `penstock crashtest` creates its folder."""
    folder = tmp_path / "folders"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def runs_of(job: Path) -> list[str]:
    """The point at which each run so far was to be killed; `-` for a run without a kill."""
    file = job.parent / "runs"
    return file.read_text().split() if file.exists() else []


def crash(
    job: Path,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
    jobs: int = 1,
    arguments: Sequence[str] = DEFAULT_ARGUMENTS,
) -> CrashResults:
    folder.mkdir(exist_ok=True)
    run = ScriptRun(job, folder, arguments, tell=tell)
    return crash_test_script(run, None, every_batch=False, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_point_is_tried_and_equal_states_share_a_restart(
    job: Path, tmp_path: Path, jobs: int
) -> None:
    results = crash(job, tmp_path / "work", jobs=jobs)
    runs = runs_of(job)
    crashed = [str(killed.crashed_at) for killed in results.killed]
    assert crashed == [
        "before_offset_log:1",
        "after_offset_log:1",
        "before_sink:1",
        "after_sink:1",
        "before_commit_log:1",
        "after_commit_log:1",
    ]
    assert sorted(run for run in runs if run != "-") == sorted(crashed)
    # The restarts: before the offset log, before the sink, before the commit, and after it.
    assert runs.count("-") == 1 + 4
    shared = {
        frozenset(str(k.crashed_at) for k in results.killed if k.restarted_in == folder)
        for folder in {k.restarted_in for k in results.killed}
    }
    assert shared == {
        frozenset({"before_offset_log:1"}),
        frozenset({"after_offset_log:1", "before_sink:1"}),
        frozenset({"after_sink:1", "before_commit_log:1"}),
        frozenset({"after_commit_log:1"}),
    }
    assert sum(killed.shared for killed in results.killed) == 2
    again = {str(killed.crashed_at): killed.delivered_again for killed in results.killed}
    assert again["before_sink:1"] == ()
    assert again["after_sink:1"] == again["before_commit_log:1"] == (1,)


def test_crashes_before_and_after_the_sink_do_not_share_a_restart(
    job: Path, tmp_path: Path
) -> None:
    """Even if the sink writes no files: it may have written to a database."""
    (job.parent / "appends").unlink()
    results = crash(job, tmp_path / "work")
    restarted = {str(killed.crashed_at): killed.restarted_in for killed in results.killed}
    assert restarted["before_sink:1"] != restarted["after_sink:1"]
    assert restarted["before_sink:1"] == restarted["after_offset_log:1"]


def test_the_state_digest_ignores_ids_times_and_paths(tmp_path: Path) -> None:
    def state(name: str, content: str, point: FaultPoint) -> str:
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text(
            content.replace("HERE", f"{tmp_path}/{name}")
        )
        (tmp_path / name / "deep" / ".file.crc").write_text(name)
        return state_digest(tmp_path / name, [BatchPoint(point, 1)])

    text = '{"id":"%s","at":%d,"path":"HERE/x"}'
    first = text % ("5a3b0f0e-1111-4222-8333-944455556666", 1_700_000_000_000)
    second = text % ("6a3b0f0e-1111-4222-8333-944455556667", 1_700_000_000_999)
    planned = FaultPoint.AFTER_PLANNING
    same = state("a", first, planned)
    assert same == state("b", second, planned)
    assert same == state("c", first, FaultPoint.BEFORE_SINK), "the sink was not called yet"
    assert same != state("d", first, FaultPoint.AFTER_SINK)
    assert same != state("e", f"{first} ", planned)


def test_progress_lines(job: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    crash(job, tmp_path / "work", lines.append)
    assert lines[0] == "running without a crash ..."
    assert [line.partition(":")[0] for line in lines[1:]] == [f"{n} of 6" for n in range(1, 7)]
    assert lines[1].startswith("1 of 6: killed at before_offset_log of batch 1, about ")
    assert lines[1].endswith(" left")
    assert lines[-1] == "6 of 6: killed at after_commit_log of batch 1"


def test_ctrl_c_prints_the_results_and_the_test_can_be_resumed(
    spark: SparkSession, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary files"))
    (job.parent / "block").write_text("after_sink:1")
    command = ["crashtest", "--jobs", "1", "--reader", str(job.parent / "reader.py")]

    def interrupt() -> None:
        while "after_sink:1" not in runs_of(job):
            waited.wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    waited = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    stopped = CliRunner().invoke(app, [*command, str(job)])
    thread.join()
    assert stopped.exit_code == 130, stopped.output
    assert "before_sink        1      -                exactly once" in stopped.stdout
    assert "Interrupted: 3 of 6 crashes were tried." in stopped.stdout
    [_, folder] = shlex.split(stopped.stderr.split("the command with `")[1].partition("`")[0])

    (job.parent / "block").unlink()
    before = runs_of(job)
    resumed = CliRunner().invoke(app, [*command, "--json", "--resume", folder, str(job)])
    assert resumed.exit_code == 1, resumed.output
    assert "3 of 6 crashes are already finished" in resumed.stderr
    made = runs_of(job)[len(before) :]
    assert [run for run in made if run != "-"] == [
        "after_sink:1",
        "before_commit_log:1",
        "after_commit_log:1",
    ]
    assert made.count("-") == 2, "neither the first run nor a finished restart is repeated"
    report = json.loads(resumed.stdout)
    assert (len(report["trials"]), report["notTried"]) == (6, [])
    verdicts = {trial["point"]: trial["verdict"] for trial in report["trials"]}
    assert verdicts["before_sink"] == verdicts["after_commit_log"] == "exactly once"
    assert verdicts["after_sink"] == verdicts["before_commit_log"] == "duplicates"
    assert not Path(folder).exists(), "the folder of a finished test is removed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--point", "after_sink", "--point", "before_purge"], "did not reach before_purge"),
        (["--format", "parquet"], "The output of the run without a crash could not be read"),
        (["--format", "parqet"], "NotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the"),
        (["--reader", "{here}/empty.py"], "has no rows, so there is nothing to compare. Pass {out"),
    ],
)
def test_a_test_that_would_find_nothing_ends_before_the_first_crash(
    spark: SparkSession, job: Path, folders: Path, options: list[str], message: str
) -> None:
    (job.parent / "empty.py").write_text("def read_output(workspace):\n    return []\n")
    words = [word.replace("{here}", str(job.parent)) for word in options]
    result = CliRunner().invoke(app, ["crashtest", *words, str(job)])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert runs_of(job) == ["-"]
    assert list(folders.iterdir()) == []


def test_a_reader_that_fails_to_load_ends_the_test_before_the_first_run(
    job: Path, folders: Path
) -> None:
    reader = job.parent / "reader.py"
    reader.write_text("import a_module_that_does_not_exist\n")
    result = CliRunner().invoke(app, ["crashtest", "--reader", str(reader), str(job)])
    assert result.exit_code == 2, result.output
    assert f"{reader} failed: ModuleNotFoundError: No module named" in result.stderr
    assert runs_of(job) == []
    assert list(folders.iterdir()) == []


def test_the_crashes_are_kept_when_an_output_cannot_be_read(
    spark: SparkSession, job: Path, folders: Path
) -> None:
    reader = job.parent / "reader.py"
    working = reader.read_text()
    reader.write_text(
        f"{working}\nread_rows = read_output\n\ndef read_output(workspace):\n"
        "    assert workspace.name == 'uncrashed', 'it is Sunday'\n"
        "    return read_rows(workspace)\n"
    )
    command = ["crashtest", "--jobs", "1", "--reader", str(reader)]
    failed = CliRunner().invoke(app, [*command, str(job)])
    assert failed.exit_code == 2, failed.output
    assert "The output after the crash at before_offset_log:1 could not be read" in failed.stderr
    assert "AssertionError: it is Sunday" in failed.stderr
    (folder,) = folders.iterdir()
    assert f"Repeat the command with `--resume {folder}` to continue." in failed.stderr

    reader.write_text(working)
    (folder / "notes.txt").write_text("precious")
    made = runs_of(job)
    resumed = CliRunner().invoke(app, [*command, "--resume", str(folder), str(job)])
    assert resumed.exit_code == 1, resumed.output
    assert "4 exactly once, 2 duplicates" in resumed.stdout
    assert runs_of(job) == made
    assert "it has files that the test did not make: notes.txt" in resumed.stderr
    assert list(folder.iterdir()) == [folder / "notes.txt"]


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_only_the_folder_of_this_test_can_be_resumed(
    job: Path, tmp_path: Path, content: str | None
) -> None:
    foreign = tmp_path / "my data"
    foreign.mkdir()
    (foreign / "report.csv").write_text("precious")
    if content is not None:
        (foreign / "crashtest.json").write_text(content)
    before = sorted(foreign.iterdir())
    command = ["crashtest", "--reader", str(job.parent / "reader.py")]
    result = CliRunner().invoke(app, [*command, "--resume", str(foreign), str(job)])
    assert result.exit_code == 2, result.output
    assert {
        None: "has no interrupted crash test",
        "{": "crashtest.json is damaged (Expecting property name",
        "[]": "crashtest.json is damaged (it has no JSON object)",
        "{}": "has the runs of another crash test",
    }[content] in result.stderr
    assert sorted(foreign.iterdir()) == before
    assert runs_of(job) == []


def test_a_new_test_needs_an_empty_folder(job: Path, tmp_path: Path) -> None:
    (tmp_path / "before_sink_1").mkdir()
    with pytest.raises(ExecutionError, match="is not empty and has no crash test"):
        crash(job, tmp_path)
    assert (tmp_path / "before_sink_1").exists()


def test_a_damaged_result_is_named(job: Path, tmp_path: Path) -> None:
    crash(job, tmp_path / "work")
    (tmp_path / "work" / "after_sink_1.json").write_text('{"state": ""}')
    with pytest.raises(ExecutionError, match=r"sink_1\.json is damaged \(it has no restart, error"):
        crash(job, tmp_path / "work")


def test_files_that_the_test_did_not_make_are_kept(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    crash(job, folder)
    (folder / "notes.json").write_text("precious")
    (folder / "after_sink_1_backup").mkdir()
    assert crash_folder.remove(folder) == ["after_sink_1_backup", "notes.json"]
    assert sorted(os.listdir(folder)) == ["after_sink_1_backup", "notes.json"]


def test_the_files_of_a_finished_test_are_removed(job: Path, tmp_path: Path) -> None:
    crash(job, tmp_path / "work")
    assert crash_folder.remove(tmp_path / "work") == []
    assert not (tmp_path / "work").exists()


def test_a_fixed_checkpoint_is_an_error_of_the_call(job: Path, tmp_path: Path) -> None:
    fixed = [str(tmp_path / "ck1"), "{output}"]
    with pytest.raises(ExecutionError, match=r"Its arguments have no \{checkpoint\}, so it may"):
        crash(job, tmp_path / "work", arguments=fixed)
    with pytest.raises(ExecutionError, match=r"ran no batch.* uses \{checkpoint\}"):
        crash(job, tmp_path / "again", arguments=fixed)


@pytest.mark.parametrize("checkpoint", ["{checkpoint}", "{work}/mine"])
def test_a_point_that_is_not_reached_again_is_a_result(
    job: Path, tmp_path: Path, checkpoint: str
) -> None:
    (job.parent / "misses").touch()
    lines: list[str] = []
    results = crash(job, tmp_path / "work", lines.append, arguments=[checkpoint, "{output}"])
    assert len(results.killed) == 6
    assert {killed.error for killed in results.killed} == {
        "was not killed but exited with code 0: this run did not reach the fault point again"
    }
    assert lines[-1] == "6 of 6: not killed at after_commit_log of batch 1"


def test_the_brief_text_of_a_java_exception_has_its_message() -> None:
    text = "An error occurred while calling o35.load.\n: a.JavaException: [CODE] why\n\tat b.C.d\n"
    assert in_brief(Exception(text)) == "a.JavaException: [CODE] why"
    assert in_brief(Exception("first\n: second")) == "Exception: first"


def test_the_folder_of_another_test_is_refused(job: Path, tmp_path: Path) -> None:
    crash(job, tmp_path / "work")
    job.write_text("# changed")
    with pytest.raises(ExecutionError, match=r"the runs of another crash test \(other sha256\)"):
        crash(job, tmp_path / "work")


def test_a_run_that_fails_ends_the_test(job: Path, tmp_path: Path) -> None:
    (job.parent / "block").write_text("after_offset_log:1")
    (tmp_path / "work").mkdir()
    run = ScriptRun(job, tmp_path / "work", timeout=8)
    with pytest.raises(ExecutionError, match="did not end within 8 s"):
        crash_test_script(run, None, every_batch=False, jobs=1)
    assert "before_sink:1" not in runs_of(job)
