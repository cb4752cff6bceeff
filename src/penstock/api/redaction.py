"""Keeping secrets out of what is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "*********(redacted)"
"""What Spark puts in the place of a secret."""

SPARK_RULE = r"(?i)secret|password|token|access[.]?key|credential"
"""The default of `spark.redaction.regex`."""

_FURTHER_RULE = r"(?i)passwd|pwd|(?:account|api|private|shared|encryption|sas)[._-]?key|jaas"
# Everything between `//` and the last `@` before the path: credentials may hold an `@` too.
# Both patterns begin only where a word begins: else a long word would take time by its square.
_CREDENTIALS_IN_URL = re.compile(r"(?<![\w+.-])(?P<scheme>[\w+.-]+://)[^/\s'\"<>]*@")
# key=value, key: value, "key":"value"; a value is quoted, or ends where a list or a URL goes on.
_ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?P<key>[\w.-]+)(?P<quote>["']?)(?P<sign>\s*(?:=|:|->)\s*)"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s,;&"'\])}]+)"""
)


class Redactor:
    """Hides the values of whatever has a name that sounds like a secret."""

    def __init__(self, rule: str | None = None) -> None:
        """`rule` is a `spark.redaction.regex`; one that Python cannot read is as if not given.

        Names that sound like secrets to everybody are hidden by every rule.
        """
        self._rules = [re.compile(_FURTHER_RULE), _compiled(rule)]

    def option(self, key: str, value: str) -> str:
        """The value of an option as it may be shown."""
        if self._is_secret(key):
            return REDACTED
        return self.text(value)

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        return {key: self.option(key, value) for key, value in options.items()}

    def text(self, text: str) -> str:
        """A text as it may be shown: no credentials in URLs, no values of secret names."""
        hidden = _CREDENTIALS_IN_URL.sub(rf"\g<scheme>{REDACTED}@", text)
        return _ASSIGNMENT.sub(self._hide_value, hidden)

    def _hide_value(self, match: re.Match[str]) -> str:
        if not self._is_secret(match["key"]):
            return match[0]
        return f"{match['key']}{match['quote']}{match['sign']}{REDACTED}"

    def _is_secret(self, key: str) -> bool:
        return any(rule.search(key) for rule in self._rules)


def _compiled(rule: str | None) -> re.Pattern[str]:
    try:
        return re.compile(rule or SPARK_RULE)
    except re.error:
        return re.compile(SPARK_RULE)
