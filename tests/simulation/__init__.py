"""A simulated world for the real engine: files, sources, sink and clock in memory.

The engine is the one that drives Spark, unchanged; only its interfaces are implemented in memory.
These tests make no claim about Spark.
"""

from tests.simulation.schedule import Schedule
from tests.simulation.shrink import shrink
from tests.simulation.simulator import Outcome, quiet_engine, simulate

__all__ = ["Outcome", "Schedule", "quiet_engine", "shrink", "simulate"]
