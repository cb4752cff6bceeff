"""The programs of the differential suite, all of them."""

from tests.differential.program import Program
from tests.differential.programs import aggregations, deduplication, joins, stateless

PROGRAMS: tuple[Program, ...] = (
    *stateless.PROGRAMS,
    *aggregations.PROGRAMS,
    *deduplication.PROGRAMS,
    *joins.PROGRAMS,
)
