"""The commands of `penstock checkpoint`, in text and in JSON, without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.redaction import REDACTED
from tests.checkpoint.tools.checkpoints import (
    QUERY_ID,
    content_of,
    stateful,
    stateless,
    two_sources,
    write,
)
from tests.docs.clicks import clicks


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["checkpoint", *map(str, words)])
    assert result.exit_code == code, result.output
    return result


def json_of(*words: object, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code).stdout)


def test_show(checkpoint: Path) -> None:
    stateful(checkpoint, 12, planned=True)
    text = run("show", checkpoint).stdout
    assert QUERY_ID in text
    assert "12, planned and not committed" in text
    assert "HDFS-backed" in text
    assert "3 earlier batches" in text
    assert "earlier batches" not in run("show", checkpoint, "--all").stdout
    document = json_of("show", checkpoint)
    assert document["queryId"] == QUERY_ID
    assert document["operators"][0]["versions"] == list(range(1, 13))
    assert len(document["batches"]) == 13


def test_show_one_batch(checkpoint: Path) -> None:
    stateful(checkpoint)
    text = run("show", checkpoint, 2).stdout
    assert '{"logOffset":1}' in text
    assert "hdfs://store/data/2.txt" in text
    assert json_of("show", checkpoint, 2)["batch"]["status"] == "committed"


def test_secrets_in_offsets_are_redacted(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    entries = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()]
    for entry in entries:
        lines = entry.read_text().splitlines()
        url = "https://u:hunter2@host/x?sig=hunter2"
        lines[2] = json.dumps({"cursor": 5, "pageToken": "hunter2", "url": url})
        entry.write_text("\n".join(lines))
    other = tmp_path / "other"
    stateless(other)
    newest = max(int(entry.name) for entry in entries)
    for words in (
        ("show", checkpoint),
        ("show", checkpoint, newest),
        ("diff", checkpoint, other),
        ("rewind", checkpoint, "--to", newest - 1),
        ("set-offset", checkpoint, "0", '{"pageToken":"hunter2","n":2}'),
    ):
        for form in ((), ("--json",)):
            result = CliRunner(env={"COLUMNS": "400"}).invoke(
                app, ["checkpoint", *map(str, words), *form]
            )
            assert "hunter2" not in result.output, words
            if words[0] != "rewind":
                assert REDACTED in result.output, words


def test_show_a_new_checkpoint(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    assert "No batch yet" in run("show", checkpoint).stdout


def test_a_directory_that_is_not_a_checkpoint_has_exit_code_2(tmp_path: Path) -> None:
    assert "not a checkpoint" in run("verify", tmp_path, code=2).output
    assert json_of("show", tmp_path, code=2)["kind"] == "CheckpointError"


def test_verify(checkpoint: Path) -> None:
    stateless(checkpoint)
    assert "A restart will work" in run("verify", checkpoint).stdout
    assert json_of("verify", checkpoint)["willRestart"] is True
    (checkpoint / "offsets/2").unlink()
    text = run("verify", checkpoint, code=1).stdout
    assert "batch 2 doesn't exist" in text
    assert "Remedy" in text
    document = json_of("verify", checkpoint, code=1)
    assert document["findings"][0]["severity"] == "error"


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_path_that_is_not_utf_8_is_escaped(tmp_path: Path, command: str) -> None:
    checkpoint = stateless(Path(os.fsdecode(os.fsencode(tmp_path) + b"/c\xff")))
    (checkpoint / "commits/2").unlink()
    (checkpoint / "commits/3").unlink()
    assert r"/c\udcff" in run(command, checkpoint, code=command == "verify").stdout


def test_signs_that_the_terminal_does_not_have_are_escaped(checkpoint: Path) -> None:
    (stateless(checkpoint) / "offsets/2").unlink()
    latin = CliRunner(charset="latin-1", env={"COLUMNS": "200"})
    result = latin.invoke(app, ["checkpoint", "verify", str(checkpoint)])
    assert result.exit_code == 1
    assert r"\u2717 offsets/2" in result.stdout


def test_diff(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    other = stateless(tmp_path / "other", 3)
    assert "No difference" in run("diff", checkpoint, checkpoint).stdout
    assert "next batch" in run("diff", checkpoint, other, code=1).stdout
    assert json_of("diff", checkpoint, other, code=1)["differences"]


def test_fork(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    assert "Forked" in run("fork", checkpoint, tmp_path / "fork", "--at", 1).stdout
    assert json_of("fork", checkpoint, tmp_path / "again")["nextBatch"] == 4
    assert "not empty" in run("fork", checkpoint, tmp_path / "fork", code=1).output


@pytest.mark.parametrize(
    "words",
    [
        ("rewind", "--to", "1"),
        ("set-offset", "0", '{"logOffset":1}'),
        ("add-source",),
        ("add-source", "--at", "0", "--offset", "5"),
        ("remove-source", "1"),
        ("remove-source", "0"),
        ("reorder-sources", "1", "0"),
    ],
)
def test_a_change_is_shown_first_made_with_yes_and_undone(
    checkpoint: Path, words: tuple[str, ...]
) -> None:
    two_sources(checkpoint)
    before = content_of(checkpoint)
    command, *rest = words
    text = run(command, checkpoint, *rest).stdout
    assert "Nothing was changed" in text
    assert content_of(checkpoint) == before
    assert json_of(command, checkpoint, *rest)["isDone"] is False

    assert "Done." in run(command, checkpoint, *rest, "--yes").stdout
    assert content_of(checkpoint) != before
    assert "can undo" in run("show", checkpoint).stdout

    preview = json_of("undo", checkpoint)["changes"]
    there = {change["path"] for change in preview if change["change"] == "restore"}
    gone = {change["path"] for change in preview if change["change"] == "delete"}
    assert there <= before.keys() | {str(Path(path).parent) for path in before}
    assert not gone & before.keys()
    assert there or gone
    text = run("undo", checkpoint).stdout
    assert "Would undo" in text
    assert ("restore" in text) == bool(there)
    assert "Undone" in run("undo", checkpoint, "--yes").stdout
    assert content_of(checkpoint) == before
    assert "nothing to undo" in run("undo", checkpoint, code=1).output


@pytest.mark.parametrize("command", ["replan", "skip"])
def test_replan_and_skip_of_a_planned_batch(checkpoint: Path, command: str) -> None:
    stateless(checkpoint, 2, planned=True)
    before = content_of(checkpoint)
    document = json_of(command, checkpoint, "--yes")
    assert document["isDone"] is True
    assert document["warnings"]
    assert "notes" not in document
    assert content_of(checkpoint) != before
    assert json_of("undo", checkpoint, "--yes")["isDone"] is True
    assert content_of(checkpoint) == before
    run(command, checkpoint, "--yes")
    assert f"nothing to {command}" in run(command, checkpoint, "--yes", code=1).output


def test_the_exact_changes_are_shown(checkpoint: Path) -> None:
    stateless(checkpoint)
    text = run("set-offset", checkpoint, "0", '{"logOffset":1}').stdout
    assert "replace offsets/3" in text
    assert '-{"logOffset":3}' in text
    assert '+{"logOffset":1}' in text
    assert "delete sources/0/3" in text


def test_rewind_warns_that_a_file_sink_skips_batches(checkpoint: Path) -> None:
    stateless(checkpoint)
    text = " ".join(run("rewind", checkpoint, "--to", 1).stdout.split())
    assert "DATA LOSS" in text
    assert "--sink" in text


def test_a_command_without_changes_succeeds_and_makes_no_backup(checkpoint: Path) -> None:
    stateless(checkpoint)
    assert "Nothing to do" in run("rewind", checkpoint, "--to", 3, "--yes").stdout
    assert not (checkpoint / ".penstock").exists()


def test_a_checkpoint_with_a_recent_log_entry_is_not_changed(checkpoint: Path) -> None:
    stateless(checkpoint)
    os.utime(checkpoint / "commits/3")
    before = content_of(checkpoint)
    assert "may still be running" in " ".join(run("rewind", checkpoint, "--to", 1).stdout.split())
    assert "--stopped" in run("rewind", checkpoint, "--to", 1, "--yes", code=1).output
    assert content_of(checkpoint) == before
    assert "--stopped" not in run("rewind", checkpoint, "--to", 1, "--stopped").stdout
    assert json_of("rewind", checkpoint, "--to", 1, "--stopped")["activity"] is None
    run("rewind", checkpoint, "--to", 1, "--yes", "--stopped")


def test_a_fork_names_no_option_that_it_does_not_have(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    os.utime(checkpoint / "commits/3")
    warning = json_of("fork", checkpoint, tmp_path / "fork")["warnings"][-1]
    assert "commits/3 was written" in warning
    assert warning.endswith("may still be running here. The copy was made at batch 3.")


def test_an_interrupted_command_blocks_the_next(checkpoint: Path) -> None:
    stateless(checkpoint)
    manifest = {"operation": "rewind --to 0", "madeAtMs": 0, "isDone": False}
    text = json.dumps(manifest | {"newest": [None, None], "changes": []})
    write(checkpoint / ".penstock/backups/0001/manifest.json", text, twin=False)
    assert "was interrupted" in run("rewind", checkpoint, "--to", 1, "--yes", code=1).output
    run("undo", checkpoint, "--yes")
    run("rewind", checkpoint, "--to", 1, "--yes")


def test_undo_keep_is_shown_first_and_made_with_yes(checkpoint: Path) -> None:
    stateless(checkpoint)
    run("rewind", checkpoint, "--to", 1, "--yes")
    assert "nothing to keep" in run("undo", checkpoint, "--keep", code=1).output
    (checkpoint / ".penstock/backups/0001/manifest.json").write_text("")
    for command in (["verify"], ["undo"], ["rewind", "--to", "0"]):
        refused = run(command[0], checkpoint, *command[1:], code=1)
        assert "cannot be read" in refused.output
        assert "--keep" in refused.output
    assert "Would keep" in run("undo", checkpoint, "--keep").stdout
    assert json_of("undo", checkpoint, "--keep")["isDone"] is False
    assert "verify" in run("undo", checkpoint, "--keep", "--yes").stdout
    run("verify", checkpoint)


def test_the_command_after_undo_keep_can_be_copied_into_a_shell(tmp_path: Path) -> None:
    root = stateless(tmp_path / "my [red]jobs[/]")
    run("rewind", root, "--to", 1, "--yes")
    (root / ".penstock/backups/0001/manifest.json").write_text("")
    output = run("undo", root, "--keep", "--yes").stdout
    assert output.endswith(f"Check it: penstock checkpoint verify '{root}'\n")


def test_no_command_starts_spark() -> None:
    code = (
        "import sys, penstock.cli.main, penstock; "
        "bad = [m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'py4j')]; "
        "sys.exit(', '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_offsets_are_shown_in_words(checkpoint: Path, tmp_path: Path) -> None:
    clicks(checkpoint)
    shown = run("show", checkpoint).stdout
    assert "clicks-0 at 50,400, clicks-1 at 49,854" in shown
    lines = [line.split() for line in run("show", checkpoint, 41).stdout.splitlines()]
    assert ["source", "topic", "partition", "from", "to", "count"] in lines
    assert ["0", "clicks", "1", "47,480", "48,667", "+1,187"] in lines
    assert ["0", "clicks", "1", "-", "45,106", "?"] in [
        line.split() for line in run("show", checkpoint, 38).stdout.splitlines()
    ]
    other = clicks(tmp_path / "other")
    entry = other / "offsets/42"
    entry.write_text(entry.read_text().replace('"1":49854', '"1":49000,"2":1'))
    told = run("diff", checkpoint, other, code=1).stdout
    assert "clicks-1 at 49,854" in told
    assert "clicks-1 at 49,000, clicks-2 at 1" in told
    assert "-853, 1 partition added" in told
    assert "clicks-0" not in told


def test_delta_offsets_are_shown_in_words(checkpoint: Path) -> None:
    stateless(checkpoint, 2)
    for batch in range(2):
        entry = checkpoint / f"offsets/{batch}"
        position = {"reservoirId": "x", "reservoirVersion": 3 + batch, "index": batch}
        entry.write_text("\n".join([*entry.read_text().splitlines()[:2], json.dumps(position)]))
    assert "version 4, file index 1" in run("show", checkpoint).stdout
    told = run("show", checkpoint, 1).stdout
    assert "Source 0: from version 3, file index 0 to version 4, file index 1" in told
    assert "Source 0: from - to version 3" in run("show", checkpoint, 0).stdout


def test_rewind_to_a_time(checkpoint: Path) -> None:
    clicks(checkpoint)
    told = run("rewind", checkpoint, "--to-time", "2026-01-01T01:40:30+01:00", "--yes").stdout
    assert "Batch 40, planned at 2026-01-01T00:40:00.000Z, is the last one planned before" in told
    assert not (checkpoint / "offsets/41").exists()
    assert "Undone: rewind --to 40" in run("undo", checkpoint, "--yes", "--stopped").stdout
    for words in ((), ("--to", 40, "--to-time", "2026-01-01T00:00Z")):
        assert "either --to BATCH or" in run("rewind", checkpoint, *words, code=1).stderr
    no_zone = run("rewind", checkpoint, "--to-time", "2026-01-01T00:00", code=1)
    assert "Add Z for UTC" in no_zone.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "either the offset as JSON or --kafka-timestamp"),
        (("{}", "--kafka-timestamp", "1"), "either the offset as JSON or --kafka-timestamp"),
        (("--kafka-timestamp", "noon"), "not a time in ISO 8601"),
        (("--kafka-timestamp", "1767225600000"), "give --bootstrap-servers HOST:PORT"),
        (
            ("--kafka-timestamp", "0", "--bootstrap-servers", "h:1", "--kafka-option", "a"),
            "--kafka-option takes NAME=VALUE, and 'a' has no value",
        ),
        (
            ("--kafka-timestamp", "0", "--bootstrap-servers", "h:1", "--kafka-option", "no.such=1"),
            'No such configuration property: "no.such"',
        ),
    ],
)
def test_set_offset_to_a_time_refuses(checkpoint: Path, words: tuple[str, ...], why: str) -> None:
    clicks(checkpoint)
    (checkpoint / "offsets/42").unlink()
    before = content_of(checkpoint)
    assert why in run("set-offset", checkpoint, 0, *words, code=1).stderr
    assert content_of(checkpoint) == before


def test_set_offset_to_a_time_names_the_missing_extra(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks(checkpoint)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
    words = ("--kafka-timestamp", "0", "--bootstrap-servers", "h:1")
    told = run("set-offset", checkpoint, 0, *words, code=1).stderr
    assert "pip install 'penstock[kafka]'" in told


def test_show_has_a_line_for_each_of_many_sinks(checkpoint: Path) -> None:
    stateless(checkpoint, planned=True)
    names = 'v1\n{"fromBatch":0,"sinks":["lake","alerts"]}'
    write(checkpoint / ".penstock/sink-names/0", names, twin=False)
    write(checkpoint / ".penstock/sinks/lake/4", 'v1\n{"batchTimestampMs":1004}', twin=False)
    lines = run("show", checkpoint).stdout.splitlines()
    assert [line.split(maxsplit=3) for line in lines if line.startswith(("lake", "alerts"))] == [
        ["lake", "4", "1", "finished"],
        ["alerts", "-", "0", "waits for it"],
    ]
    assert "Finished by the sinks lake" in run("show", checkpoint, 4).stdout
    assert json_of("show", checkpoint)["sinks"][1]["hasPlannedBatch"] is False
