"""Every `penstock checkpoint` command does the same in an object store as in a directory."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.checkpoint.tools import locations
from penstock.cli.main import app
from tests.checkpoint.tools.buckets import URI, Buckets, use_buckets
from tests.checkpoint.tools.checkpoints import content_of, stateful, stateless, two_sources, write

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FORK = "s3a://bucket/checkpoints/copy"


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Buckets:
    return use_buckets(monkeypatch)


def run(*words: object, code: int | None = 0) -> Result:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["checkpoint", *map(str, words)])
    assert code is None or result.exit_code == code, result.output
    return result


def state_with_snapshots(root: Path) -> Path:
    stateful(root, 4)
    return stateful(root, 4, provider="rocksdb")


def planned(root: Path) -> Path:
    return stateless(root, 4, planned=True)


def planned_first(root: Path) -> Path:
    write(root / "state/0/0/1.delta", "x")
    return stateful(root, 0, planned=True)


def many_sinks(root: Path) -> Path:
    stateless(root, 3, planned=True)
    for batch in range(4):
        text = f'v1\n{{"batchTimestampMs":{1000 + batch}}}'
        write(root / f".penstock/sinks/lake/{batch}", text, twin=False)
    names = 'v1\n{"fromBatch":0,"sinks":["lake","alerts"]}'
    write(root / ".penstock/sink-names/0", names, twin=False)
    return root


def damaged(root: Path) -> Path:
    stateful(root, 4)
    (root / "offsets/3").write_bytes(b"")
    (root / "state/0/1/4.delta").unlink()
    (root / "commits/.1.crc").write_bytes(b"crc\0\0\0\2\0nonsense")
    write(root / "offsets/.4.tmp", "x", twin=False)
    return root


def sources_removed(root: Path) -> Path:
    two_sources(root)
    run("remove-source", root, 0, "--yes")
    shutil.rmtree(root / ".penstock/backups/0001/files", ignore_errors=True)
    return root


READING: list[tuple[Callable[[Path], Path], tuple[object, ...]]] = [
    (stateful, ("show", "--settings", "--all")),
    (stateful, ("show", 2)),
    (planned, ("show", 4)),
    (two_sources, ("show",)),
    (many_sinks, ("show",)),
    (damaged, ("show",)),
    (stateful, ("verify",)),
    (planned, ("verify",)),
    (many_sinks, ("verify",)),
    (damaged, ("verify",)),
    (state_with_snapshots, ("verify",)),
    (sources_removed, ("show",)),
]

CHANGING: list[tuple[Callable[[Path], Path], tuple[object, ...]]] = [
    (stateful, ("rewind", "--to", 1)),
    (stateful, ("rewind", "--to-time", "1970-01-01T00:00:01.002Z")),
    (many_sinks, ("rewind", "--to", 1)),
    (planned, ("replan",)),
    (planned_first, ("replan",)),
    (planned, ("skip",)),
    (stateless, ("set-offset", 0, '{"logOffset":1}')),
    (stateless, ("set-offset", 0, "-")),
    (two_sources, ("add-source", "--at", 0)),
    (two_sources, ("remove-source", 0)),
    (two_sources, ("reorder-sources", 1, 0)),
]

REFUSED: list[tuple[Callable[[Path], Path], tuple[object, ...]]] = [
    (stateful, ("rewind", "--to", 9)),
    (stateful, ("replan",)),
    (planned, ("set-offset", 0, "-")),
    (stateless, ("undo",)),
    (stateless, ("remove-source", 0)),
    (damaged, ("rewind", "--to", 3)),
]


def named(value: tuple[Any, ...]) -> str:
    return f"{value[0].__name__}-{'-'.join(map(str, value[1]))}"


def normal(document: Any, *roots: object) -> Any:
    """A result with the same names of locations, ids and times."""
    text = json.dumps(document)
    for number, root in enumerate(roots):
        text = text.replace(str(root), f"ROOT{number}")
    text = UUID.sub("ID", text).replace("rm ROOT", "remove ROOT")
    found = json.loads(text)
    if "sizes" in found:
        found["sizes"] = [part for part in found["sizes"] if part["name"] != ".penstock"]
    if "undone" in found:
        found["undone"]["madeAtMs"] = 0
    return found


def both(
    buckets: Buckets, checkpoint: Path, words: tuple[object, ...], code: int | None = 0
) -> None:
    """Run a command at both places and compare what it prints."""
    results = []
    for root in (checkpoint, URI):
        result = run(words[0], root, *words[1:], "--json", code=code)
        results.append((result.exit_code, normal(json.loads(result.stdout), root)))
    assert results[0] == results[1]


@pytest.mark.parametrize("case", READING, ids=named)
def test_a_reading_command(buckets: Buckets, checkpoint: Path, case: Any) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.all_content()
    both(buckets, checkpoint, case[1], code=None)
    assert buckets.all_content() == before
    assert buckets.changes == 0


@pytest.mark.parametrize("case", CHANGING, ids=named)
def test_a_changing_command_and_its_undo(buckets: Buckets, checkpoint: Path, case: Any) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.all_content()
    both(buckets, checkpoint, case[1])
    assert buckets.all_content() == before
    both(buckets, checkpoint, (*case[1], "--yes"))
    assert buckets.content() == content_of(checkpoint)
    assert buckets.content() != {n: d for n, d in before.items() if not n.startswith(".penstock")}
    both(buckets, checkpoint, ("verify",))
    both(buckets, checkpoint, ("undo",))
    both(buckets, checkpoint, ("undo", "--yes"))
    assert buckets.all_content() == before


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_a_refused_command(buckets: Buckets, checkpoint: Path, case: Any) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.all_content()
    both(buckets, checkpoint, (*case[1], "--yes"), code=1)
    assert buckets.all_content() == before


def test_text_output(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    assert URI in run("show", URI).stdout
    assert "A restart will work" in run("verify", URI).stdout
    assert "Nothing was changed" in run("rewind", URI, "--to", 1).stdout
    assert f"{URI}/.penstock/backups/0001" in run("rewind", URI, "--to", 1, "--yes").stdout


def test_s3_and_s3a_are_the_same_place(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    document = json.loads(run("diff", URI, URI.replace("s3a:", "s3:"), "--json").stdout)
    assert document["differences"] == []


def test_a_directory_and_a_store_are_compared(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    assert "No difference" in run("diff", checkpoint, URI).stdout


@pytest.mark.parametrize("at", [(), ("--at", 1)], ids=["all", "at"])
@pytest.mark.parametrize("way", ["within", "download", "upload", "other-bucket"])
def test_fork(
    buckets: Buckets, checkpoint: Path, tmp_path: Path, way: str, at: tuple[object, ...]
) -> None:
    buckets.upload(stateful(checkpoint))
    run("fork", checkpoint, tmp_path / "expected", *at)
    source: object = checkpoint if way == "upload" else URI
    target: object = tmp_path / "copy" if way == "download" else FORK
    if way == "other-bucket":
        target = "s3a://another/copy"
    document = json.loads(run("fork", source, target, *at, "--json").stdout)
    expected = content_of(tmp_path / "expected")
    found = content_of(Path(str(target))) if way == "download" else buckets.content(str(target))
    assert document["queryId"] in found.pop("metadata").decode()
    expected.pop("metadata")
    assert {n: d for n, d in found.items() if not n.startswith(".metadata")} == expected
    assert document["nextBatch"] == (2 if at else 4)


def test_a_fork_adjusts_the_paths_of_schemas(buckets: Buckets, checkpoint: Path) -> None:
    stateful(checkpoint)
    text = f'v2\n{{"path":"{URI}/state/0/_stateSchema/default/0_x"}}'
    write(checkpoint / "state/0/_metadata/v2/0", text)
    buckets.upload(checkpoint)
    assert "another directory" not in run("verify", URI).stdout
    run("fork", URI, FORK.replace("s3a:", "s3:"))
    copied = buckets.content(FORK)["state/0/_metadata/v2/0"].decode()
    assert copied == text.replace(URI, FORK)
    assert "another directory" in run("verify", checkpoint, code=None).stdout


def test_a_fork_into_a_place_that_is_not_empty(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    buckets.upload(checkpoint, FORK)
    assert "is not empty" in run("fork", URI, FORK, code=1).output
    assert "inside the other" in run("fork", URI, f"{URI}/copy", code=1).output


def test_a_fork_that_fails_leaves_nothing(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    buckets.fails_at = 5
    assert "failed" in run("fork", URI, FORK, code=1).output
    buckets.heal()
    assert buckets.content(FORK) == {}


def test_the_log_of_a_sink_is_cut_back(buckets: Buckets, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for batch in range(4):
        write(out / f"_spark_metadata/{batch}", f'v1\n{{"path":"{batch}","batchId":{batch}}}')
    buckets.upload(stateless(checkpoint))
    buckets.upload(out, "s3a://lake/orders")
    before = buckets.all_content("s3a://lake/orders")
    words = ("rewind", URI, "--to", 1, "--sink", "s3a://lake/orders", "--yes")
    run(*words)
    left = buckets.all_content("s3a://lake/orders")
    assert sorted(left) == sorted(
        n for n in before if "/2" not in n and "/3" not in n and n[-5:] not in ("2.crc", "3.crc")
    )
    run("undo", URI, "--yes")
    assert buckets.all_content("s3a://lake/orders") == before
    assert "both local or both" in run("rewind", URI, "--to", 1, "--sink", out, code=1).output


def test_there_is_nothing(buckets: Buckets) -> None:
    assert "There is nothing below" in run("show", URI, code=2).output
    assert "has no bucket" in run("show", "s3:///path", code=2).output


def test_other_stores(buckets: Buckets, checkpoint: Path) -> None:
    for uri in ("gs://bucket/a", "abfss://c@account.dfs.core.windows.net/a", "az://c/a"):
        buckets.upload(stateless(checkpoint), uri)
        assert uri in run("show", uri).stdout
    assert "is not a local path" in run("show", "hdfs://host/a", code=2).output


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for uri in (URI, "gs://bucket/a", "az://c/a"):
        text = run("show", uri, code=2).output
        assert "pip install 'penstock[s3]'" in text


def test_options_reach_the_client(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    buckets = use_buckets(monkeypatch)
    buckets.upload(stateful(checkpoint))
    given: list[dict[str, str]] = []

    def client(kind: str, scheme: str, bucket: str, options: dict[str, str]) -> Any:
        given.append(options)
        return buckets.client(kind, scheme, bucket, options)

    monkeypatch.setattr(locations, "open_client", client)
    endpoint = ("--option", "endpoint=http://host:9000", "--option", "Region=eu-west-1")
    run("diff", URI, URI, *endpoint)
    run("fork", URI, FORK, *endpoint)
    expected = {"endpoint": "http://host:9000", "region": "eu-west-1"}
    assert given == [expected] * len(given)
    assert "give --option KEY=VALUE" in run("show", URI, "--option", "secret", code=2).output
