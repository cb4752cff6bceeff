"""Imports packages that only an extra of Penstock installs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.errors import EnvironmentProblemError


def import_extra(name: str, extra: str, what: str) -> Any:
    """Import a module that `what`, a feature at the begin of a sentence, needs.

    Raises EnvironmentProblemError, which names the extra, if a package is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        raise EnvironmentProblemError(
            f"{what} needs the package {(exc.name or name).split('.')[0]}, which is not "
            f"installed. Install the extra: pip install 'penstock[{extra}]'"
        ) from exc
