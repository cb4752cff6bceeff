"""Whether the state of an operator has a key, and what is expected of its partitions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.checkpoint.tools.inspect import inspect
from penstock.checkpoint.tools.state_schema import has_no_key, key_columns
from penstock.checkpoint.tools.targets import possible_targets
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import stateful, write


def struct(*columns: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in columns]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def schema_v2(*key: str) -> bytes:
    one = (1).to_bytes(4, "big")
    return text("v2") + one + text(struct(*key)) + one + text(struct("count"))


def test_the_columns_of_the_key() -> None:
    assert key_columns(schema_v2("a", "b")) == 2
    assert key_columns(schema_v2()) == 0
    assert key_columns(text("v1") + text(struct("a")) + text(struct("count"))) == 1
    long = struct(*(f"column{number}" for number in range(2000)))
    parts = [long[at : at + 65535] for at in range(0, len(long), 65535)]
    split = text("v2") + len(parts).to_bytes(4, "big") + b"".join(map(text, parts))
    assert key_columns(split) == 2000
    assert key_columns(text("v3") + b"\0\0\0\1") is None


@pytest.mark.parametrize("data", [b"", b"\0", schema_v2("a")[:20], text("v2") + b"\0\0\0\1"])
def test_a_truncated_schema_tells_nothing(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "0/_metadata/schema", data)
    with pytest.raises(ValueError, match=r"truncated|Expecting"):
        key_columns(data)
    assert not has_no_key(tmp_path, "stateStoreSave", [])


def test_operators_without_a_schema(tmp_path: Path) -> None:
    assert has_no_key(tmp_path, "globalLimit", [])
    assert not has_no_key(tmp_path, "stateStoreSave", [])
    sessions = "sessionWindowStateStoreSaveExec"
    assert has_no_key(tmp_path, sessions, [{"numColsPrefixKey": 0}])
    assert not has_no_key(tmp_path, sessions, [{"numColsPrefixKey": 1}])


def test_state_without_a_key_is_expected_in_partition_0_only(checkpoint: Path) -> None:
    stateful(checkpoint)
    shutil.rmtree(checkpoint / "state/0/1")
    assert not verify(CheckpointView(checkpoint)).will_restart
    write(checkpoint / "state/0/0/_metadata/schema", schema_v2())
    view = CheckpointView(checkpoint)
    assert verify(view).will_restart
    assert possible_targets(view)
    (operator,) = inspect(view).operators
    assert (operator.partitions, operator.recorded_partitions) == (1, 1)
