"""`penstock checkpoint repartition`: changes the number of state partitions, with Spark."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from penstock.api.spark_options import SparkOptions
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.repartition import check
from penstock.cli.checkpoint_command import (
    Directory,
    Json,
    Stopped,
    StoreOptions,
    Yes,
    command_errors,
    view_of,
)
from penstock.cli.output import after_change, output_for
from penstock.cli.spark_options import takes_spark_options


@takes_spark_options
def repartition(
    directory: Directory,
    to: Annotated[int, typer.Option(min=1, help="The new number of state partitions.")],
    yes: Yes = False,
    stopped: Stopped = False,
    option: StoreOptions = None,
    json: Json = False,
    *,
    spark: SparkOptions,
) -> None:
    """Change the number of partitions of the state, for a query that keeps it in RocksDB.

    Needs Spark 4.2 or newer, which it starts with --yes: Spark adds a batch without input to a copy
    of the checkpoint, and the command then adds the new files to the checkpoint.
    """
    from penstock.debug.repartition import repartition as make
    from penstock.debug.repartition import require_spark

    with command_errors(json):
        output = output_for(json)
        require_spark()
        view = view_of(directory, option)
        wanted = check(view, to)
        plan = wanted.expected_plan()
        if not yes or not plan.changes:
            activity = activity_of(view.root).warning_of_preview(stopped=stopped)
            output.plan(plan.to_dict(view.root), None, activity)
            return
        with exclusive(view.root, wanted.operation, stopped=stopped):
            wanted = check(view_of(directory, option), to)
            with contextlib.redirect_stdout(sys.stderr):
                made, backup = make(wanted, spark)
        with after_change():
            output.plan(made.to_dict(view.root), backup, None)
