"""`make flame ONLY=windowed`: where the query's thread spends a trigger, as a flame graph.

Runs a workload of `make bench` with Java's flight recorder and draws the samples of the query's
thread to docs/images/flame-WORKLOAD.png: Spark's work, which every engine has, and Penstock's.
Needs a JDK, whose `jfr` reads recordings. ENGINE=tuned records Spark's engine instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from engines import TITLES
from matplotlib.ticker import PercentFormatter
from reports import figures_of
from workloads import WORKLOADS

HERE = Path(__file__).parent
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0"><event name="jdk.ExecutionSample">
<setting name="enabled">true</setting><setting name="period">5 ms</setting></event></configuration>
"""
_SAMPLE = re.compile(
    r'jdk\.ExecutionSample \{\s+startTime = (\S+)\s+sampledThread = "([^"]*)"'
    r".*?stackTrace = \[(.*?)\]\s*\}",
    re.DOTALL,
)
_FRAME = re.compile(r"^\s*(?:[\w.]+\.)?([\w$]+\.[\w$<>]+)\(", re.MULTILINE)
_QUERY_THREAD = {"penstock": "py4j.Gateway.invoke", "tuned": "StreamExecution"}
_PLAIN = re.compile(r"\$anonfun|\$lzycompute|\$adapted|\$\d+|\$$")
_HIDDEN = ("java.", "javax.", "jdk.", "sun.", "scala.", "py4j.")
_BARE_JOB = "DataFrameWriter.save"
"""In the samples of the stateless workload's batch job, which is no part of a trigger."""
_BATCH = "SQLExecution"
_WARM_UP_SECONDS = 15.0
"""Since the first sample in a batch."""
_LEAST_SHARE = 0.01
_COLOURS = {True: "#e07b39", False: "#c9d6e2"}
"""By whether a method is Penstock's."""


@dataclass
class Node:
    """A method and the samples in which it is on the stack."""

    name: str
    count: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    def add(self, stack: Sequence[str]) -> None:
        node = self
        node.count += 1
        for name in stack:
            node = node.children.setdefault(name, Node(name))
            node.count += 1


def main() -> None:
    name = os.environ.get("ONLY", "windowed")
    engine = os.environ.get("ENGINE", "penstock")
    if name not in WORKLOADS or engine not in _QUERY_THREAD:
        sys.exit(f"ONLY is one of {', '.join(WORKLOADS)}; ENGINE is penstock or tuned")
    if shutil.which("jfr") is None:
        sys.exit("jfr was not found: it is part of a JDK, not of a Java runtime")
    root = Node("")
    for stack in samples(record(engine, name), _QUERY_THREAD[engine]):
        root.add(stack)
    if not root.count:
        sys.exit("the recording has no samples of the query's thread")
    suffix = "" if engine == "penstock" else f"-{engine}"
    path = HERE.parent / "docs" / "images" / f"flame-{name}{suffix}.png"
    draw(root, f"{WORKLOADS[name].title}, {TITLES[engine]}", path)
    print(f"{root.count} samples of the query's thread: {path}")


def record(engine: str, name: str) -> str:
    """Run a workload with the flight recorder; its samples as text."""
    with tempfile.TemporaryDirectory() as folder:
        settings, recording = Path(folder) / "settings.jfc", Path(folder) / "recording.jfr"
        settings.write_text(_SETTINGS)
        os.environ["SPARK_SUBMIT_OPTS"] = (
            f"-XX:StartFlightRecording=filename={recording},settings={settings},dumponexit=true "
            "-XX:FlightRecorderOptions=stackdepth=256"
        )
        figures_of(HERE / "worker.py", [engine], name, "quick")
        command = ["jfr", "print", "--stack-depth", "256", "--events", "jdk.ExecutionSample"]
        done = subprocess.run(
            [*command, str(recording)], capture_output=True, text=True, check=True
        )
        return done.stdout


def samples(text: str, thread: str) -> Iterator[list[str]]:
    """The stacks of the query's thread after the warm-up, outermost method first."""
    first: float | None = None
    for match in _SAMPLE.finditer(text):
        hours, minutes, seconds = match[1].split(":")
        at = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        if thread not in match[3] or _BARE_JOB in match[3]:
            continue
        if first is None and _BATCH in match[3]:
            first = at
        if first is not None and at - first > _WARM_UP_SECONDS:
            yield list(_shown(match[3]))


def _shown(stack: str) -> Iterator[str]:
    """The methods of a stack that say something, each once if it calls itself."""
    last = ""
    for line in reversed(stack.strip().splitlines()):
        if line.strip().startswith(_HIDDEN):
            continue
        found = _FRAME.match(line)
        if found is None:
            continue
        name = _PLAIN.sub("", found[1]).replace("$", "")
        if line.strip().startswith("penstock."):
            name = f"Penstock's {name}"
        if name != last:
            last = name
            yield name


def draw(root: Node, title: str, path: Path) -> None:
    """The tree from top to bottom; a method that only passes on to another is left out."""
    bars = list(_bars(root, 0.0, 0, root.count))
    depth = max(level for level, *_ in bars) + 1
    figure, axis = plt.subplots(figsize=(15, 0.8 + 0.2 * depth))
    for level, left, width, name in bars:
        colour = _COLOURS[name.startswith("Penstock's")]
        axis.barh(level, width, left=left, height=0.95, color=colour, edgecolor="white")
        characters = int(width * 250)
        if characters > 4:
            axis.text(
                left + 0.001, level, name[:characters], va="center", fontsize=6.5, clip_on=True
            )
    axis.set_xlim(0, 1)
    axis.set_ylim(depth - 0.4, -0.6)
    axis.set_yticks([])
    axis.xaxis.set_major_formatter(PercentFormatter(1.0))
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.set_title(
        f"{title}: {root.count} samples of the query's thread ({date.today()})", fontsize=10
    )
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def _bars(
    node: Node, left: float, level: int, total: int
) -> Iterator[tuple[int, float, float, str]]:
    for child in sorted(node.children.values(), key=lambda each: -each.count):
        share = child.count / total
        if share < _LEAST_SHARE:
            break
        shown = child
        while (only := _single(shown)) is not None:
            shown = only
        yield level, left, share, shown.name
        yield from _bars(shown, left, level + 1, total)
        left += share


def _single(node: Node) -> Node | None:
    """The one method that has nearly all samples of a node, None if they are spread."""
    largest = max(node.children.values(), key=lambda each: each.count, default=None)
    if largest is None or largest.count < 0.97 * node.count:
        return None
    return largest


if __name__ == "__main__":
    main()
