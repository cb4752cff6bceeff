"""Runs one workload on one engine and prints its figures as one line of JSON."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from engines import session_for
from reports import print_figures
from workloads import FULL, QUICK, WORKLOADS, Bench, growth


def main() -> None:
    engine, name, size = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        conf = {} if name == "growth" else WORKLOADS[name].conf
        spark = session_for(engine, Path(folder) / "spark.log", conf)
        bench = Bench(spark, engine, Path(folder), QUICK if size == "quick" else FULL)
        run = growth if name == "growth" else WORKLOADS[name].run
        print_figures(run(bench))
        spark.stop()


main()
