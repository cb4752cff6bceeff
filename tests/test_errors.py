"""The tree of errors is the one drawn at the top of its file."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import PenstockError


def drawn_tree() -> dict[str, int]:
    """Every error of the drawing, with its depth."""
    assert errors.__doc__ is not None
    lines = re.findall(r"^    ([│├└─ ]*)(\w+)", errors.__doc__, re.MULTILINE)
    return {name: len(branch) // 4 for branch, name in lines}


def test_every_error_is_drawn_at_its_place() -> None:
    def tree(root: type[PenstockError], depth: int) -> dict[str, int]:
        below = [tree(child, depth + 1) for child in root.__subclasses__()]
        mine = {root.__name__: depth} if root.__module__ == errors.__name__ else {}
        return mine | {name: place for part in below for name, place in part.items()}

    assert drawn_tree() == tree(PenstockError, 0)


def test_a_stop_that_takes_too_long_is_a_timeout() -> None:
    assert issubclass(errors.QueryStopTimeoutError, TimeoutError)
