"""`bench/turns.py`: one process runs at a time, and knows its time without the pauses."""

from __future__ import annotations

import importlib
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

_BENCH = Path(__file__).parents[1] / "bench"
_CHILD = f"""
import json, sys, time
sys.path.insert(0, {str(_BENCH)!r})
import turns
began, own = time.time(), turns.own_time()
turns.sleep(0.5)
own, end = turns.own_time() - own, time.time()
print(json.dumps([began, end, own, turns.pauses(), turns.was_paused(began, end)]))
"""


def test_one_process_runs_at_a_time() -> None:
    turns: Any = importlib.import_module("bench.turns")
    command = [sys.executable, "-c", _CHILD]
    outputs = turns.run_in_turns({"a": command, "b": command}, 0.1)
    pauses = {}
    for name, output in outputs.items():
        began, end, own, pauses[name], was_paused = json.loads(output)
        assert was_paused
        assert 0.5 <= own < end - began
    for name, other in (("a", "b"), ("b", "a")):
        for (_, continued), (stopped, _) in pairwise(pauses[name]):
            if continued < pauses[other][-1][1]:  # after its last turn, the other has ended
                assert any(at < continued and stopped < to for at, to in pauses[other])


def test_a_process_that_is_not_in_turns_has_no_pauses() -> None:
    turns: Any = importlib.import_module("bench.turns")
    assert turns.pauses() == []
    assert not turns.was_paused(0, 2e9)


def test_a_process_that_fails_is_reported_by_its_output() -> None:
    turns: Any = importlib.import_module("bench.turns")
    outputs = turns.run_in_turns({"a": [sys.executable, "-c", "1 / 0"]}, 0.1)
    assert "ZeroDivisionError" in outputs["a"]
