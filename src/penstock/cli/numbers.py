"""Callbacks that check the numbers of options."""

from __future__ import annotations

import math

import typer


def positive(value: float) -> float:
    """Return the value unchanged. Raises typer.BadParameter unless it is greater than 0."""
    if not value > 0:
        raise typer.BadParameter(f"{value:g} is not greater than 0.")
    return value


def not_negative(value: float | None) -> float | None:
    """Return the value unchanged. Raises typer.BadParameter if it is negative or not finite."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value:g} is not 0 or greater, and finite.")
    return value
