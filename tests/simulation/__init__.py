"""A simulated world for the real engine: files, sources, sink and clock in memory.

The engine that runs here is the one that drives Spark, line for line; only what is beyond its
seam is simulated. What Spark does is not claimed by anything here.
"""

from tests.simulation.schedule import Schedule
from tests.simulation.shrink import shrink
from tests.simulation.simulator import Outcome, quiet_engine, simulate

__all__ = ["Outcome", "Schedule", "quiet_engine", "shrink", "simulate"]
