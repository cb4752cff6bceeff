"""JSON in Spark's format: compact, keys in insertion order, no ASCII escapes."""

from __future__ import annotations

import json
from typing import Any

from penstock.errors import MalformedLogError

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def to_json(value: Any) -> str:
    """One line of JSON in Spark's format."""
    return _ENCODER.encode(value)


def object_from_json(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object. Raises MalformedLogError, whose message starts with `what`."""
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise MalformedLogError(f"{what} is not JSON ({exc}): {text[:200]!r}") from exc
    if not isinstance(value, dict):
        raise MalformedLogError(f"{what} is not a JSON object: {text[:200]!r}")
    return value


def json_or_text(text: str | None) -> Any:
    """The value of an offset that should be JSON: the text itself if it is not, None for None."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def integer_field(fields: dict[str, Any], name: str, what: str) -> int:
    """An integer field; 0 if it is missing, as in Spark. Raises MalformedLogError."""
    value = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedLogError(f"{what} has {name!r} = {value!r}, which is not a whole number")
    return value
