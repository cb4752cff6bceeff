"""Re-exports `quiet_session` for packages that may not import `penstock.spark`."""

from penstock.spark.jvm.quiet import quiet_session

__all__ = ["quiet_session"]
