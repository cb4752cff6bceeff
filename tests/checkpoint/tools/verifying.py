"""What `verify` finds, for its tests."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from penstock.checkpoint.tools.findings import Finding, Verification
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView


def verified(root: Path) -> Verification:
    return verify(CheckpointView(root))


def the_finding(root: Path, file: str) -> Finding:
    (finding,) = [f for f in verified(root).findings if f.file == file]
    assert finding.spark
    assert finding.penstock
    assert finding.remedy
    return finding


def rocks_zip(path: Path, table: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        metadata = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": table}]}
        archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")
