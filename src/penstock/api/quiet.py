"""The quiet session, for the rooms that do not speak to Spark themselves."""

from penstock.spark.jvm.quiet import quiet_session

__all__ = ["quiet_session"]
