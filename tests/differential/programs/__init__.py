"""All programs of the differential suite."""

from tests.differential.program import Program
from tests.differential.programs import (
    aggregations,
    connectors,
    deduplication,
    joins,
    python_state,
    stateless,
)

PROGRAMS: tuple[Program, ...] = (
    *stateless.PROGRAMS,
    *connectors.PROGRAMS,
    *aggregations.PROGRAMS,
    *deduplication.PROGRAMS,
    *joins.PROGRAMS,
    *python_state.PROGRAMS,
)
