"""How far a query is behind a source, computed from offsets."""

from __future__ import annotations

import json

from penstock.checkpoint.offset_numbers import MISSING, is_number, matched_values


def lag_between(reached: str | None, latest: str | None) -> int | float | None:
    """The sum of the differences of the numbers in two offsets, given as JSON.

    The unit is the source's own. A number that only `latest` has, such as that of a new Kafka
    partition, counts from 0; a number that is smaller in `latest` counts as 0; a number that only
    `reached` has is left out. Returns None if an offset is missing, is not JSON or has no numbers,
    and if the two differ in shape.
    """
    if reached is None or latest is None:
        return None
    try:
        old_offset, new_offset = json.loads(reached), json.loads(latest)
    except ValueError:
        return None
    differences: list[int | float] = []
    for old, new in matched_values(old_offset, new_offset):
        if is_number(new) and (old is MISSING or is_number(old)):
            differences.append(max(new - (0 if old is MISSING else old), 0))
        elif is_number(new) or isinstance(new, dict):
            return None
    return sum(differences) if differences else None
