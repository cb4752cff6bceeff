"""The line of the installed Spark."""

from __future__ import annotations

import pyspark

from penstock.spark.jvm.lines import SparkLine, line_of


def installed_line() -> SparkLine:
    return line_of(pyspark.__version__)
