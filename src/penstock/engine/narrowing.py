"""Narrows a failing part of a batch to the smallest part of it that fails.

1. The failing part is split in two, and the first half is tried. If it fails, the search continues
   with it.
2. Otherwise the second half is tried. If it fails, the search continues with it; if not, only both
   halves together fail, and the search ends.
3. The search ends with a part that cannot be split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.batch_parts import BatchPart

Trial = Callable[[BatchPart], BaseException | None]
"""Runs a part of a batch and returns its error, None if it does not fail."""


@dataclass(frozen=True)
class Narrowed:
    """The smallest part that was found to fail, with its error.

    `is_together` says that it has two halves, neither of which fails.
    """

    part: BatchPart
    error: BaseException
    is_together: bool = False


def narrow(failing: BatchPart, error: BaseException, fails: Trial) -> Narrowed:
    """Narrow a part that has failed with `error`. Calls `fails` for each half that is tried."""
    while (halves := failing.halves()) is not None:
        for half in halves:
            found = fails(half)
            if found is not None:
                failing, error = half, found
                break
        else:
            return Narrowed(failing, error, is_together=True)
    return Narrowed(failing, error)
