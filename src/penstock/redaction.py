"""Removes secrets from messages, options, descriptions, offsets and log records.

From a text are removed

1. the value after a name that matches the pattern for secrets, in `name=value`, `name: value`,
   `name -> value`, `--name value`, `("name", "value")`, query strings and JSON, also JSON that is
   escaped inside a string;
2. the user and password of `scheme://user:password@host`, the password of `user:password@host`;
3. the values in `secrets`, wherever they occur.

Every search starts where the last one ended, and no pattern can match the same characters in two
ways, so the time is linear in the length of the text. Redaction is idempotent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

REDACTED = "*********(redacted)"
"""Spark's replacement for a secret."""

SPARK_RULE = r"(?i)secret|password|token|access[.]?key|credential"
"""The default of `spark.redaction.regex`."""

SHORTEST_SECRET = 4
"""Shorter values are removed only after their name, since they would occur in other words."""

# Where forms overlap, as in `token:a@b`, a replacement may extend another match. All other texts
# take two rounds, the second without a change.
_MOST_ROUNDS = 8

_LONGEST_NAME = 256

# Spark's default pattern, without words such as secretary and tokenizer, and more names.
_NAME = re.compile(
    r"secret(?!ar(?:y|ia|ies)|i(?:on|ve))|passw(?:or)?d|passphrase|pwd|token(?!i[sz][aei])|credential|jaas"
    r"|authorization|signature|(?<![a-z])sig(?![a-z])"
    r"|(?:access|account|api|encryption|master|pass|private|sas|secret|shared|signing|storage)"
    r"[ ._-]?key",
    re.IGNORECASE,
)
_NAME_OF_TWO_WORDS = re.compile(r"[a-z]+ $", re.IGNORECASE)
# `InvalidTokenException: ...` and `TokenManager.scala:42` do not assign a value to a name.
_NO_NAME = re.compile(r"(?:Exception|Error|\.(?:java|scala|kt|py))$")
# Names whose value has several words, as in `Authorization: Bearer ...`.
_SEVERAL_WORDS = re.compile(r"authorization|jaas", re.IGNORECASE)
_COUNTED = re.compile(r"tokens$", re.IGNORECASE)

_MARK = re.escape(REDACTED)
_ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?:
        (?P<pair>(?<=\(['"]))?(?P<key>[\w.-]+)(?P<close>\\*["'`])?\]?
        (?:\s*(?:[=:]{1,3}>?|->|%3[Dd])|(?(pair)\s*,(?=\s*[bBrRuU]?['"])|(?!)))[ \t]*
        |(?P<flag>--[\w.-]+)\s+(?=[^\s-])
    )""",
    re.VERBOSE,
)
_QUOTE = re.compile(r"""[bBrRuU]{0,2}(\\*)(["'`])""")
_OPENING = re.compile(r"[\[{]")
_QUOTE_OR_BRACKET = re.compile(
    r"""(?<!\\)(?P<escape>\\*)(?P<quote>["'])|[\[{(]|(?P<close>[\]})])"""
)
_QUOTES = {mark: re.compile(rf"(?<!\\)(\\*){mark}") for mark in "\"'`"}
_OFFSETS = re.compile(r"""\{(?:[\s,]*\\*"\d+\\*":\s*-?\d+)*\s*\}""")
# A delimiter ends a value only if another assignment, white space or the end of text follows.
_BARE_PART = (
    rf"""{_MARK}|[,;&](?![\s,;&]|$|[\w.%-]+\\*["']?\s*[=:]|["'])|["'`)\]}}>](?=\w)"""
    r"""|\\+(?![\\"'])|[^\\\s,;&"'`)\]}>]"""
)
_WORD = re.compile(rf"(?:{_BARE_PART})+")
_WORDS = re.compile(rf"""(?:=(?:"[^"\n]*"|'[^'\n]*')|{_BARE_PART}|[ ](?=\S))+""")
_NO_WHITESPACE_OR_QUOTE = re.compile(r"""[^\s'"<>]+""")
_AZURE = re.compile(r"(?:^|[^a-z0-9])(?:abfs|wasb)s?$", re.IGNORECASE)
_PORT = re.compile(r"\d*(?:[/?#,]|$)")


class _Hidden(NamedTuple):
    """A part of a text that is replaced."""

    start: int
    end: int
    replacement: str = REDACTED


class Redactor:
    """Replaces secrets by REDACTED. Immutable."""

    def __init__(self, rule: str | None = None, secrets: Iterable[str] = ()) -> None:
        """`rule` is a `spark.redaction.regex` for names, in addition to the built-in pattern.

        A rule that is no valid Python pattern is ignored. `secrets` are removed wherever they
        occur, also escaped in JSON and URLs; see SHORTEST_SECRET.
        """
        self._rule = None if rule in (None, SPARK_RULE) else _compiled(rule)
        self._rule_text = rule
        self._secrets = frozenset(secret for secret in secrets if _is_telling(secret))
        forms = {form for secret in self._secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join([_MARK, *map(re.escape, longest_first)]))

    def knowing(self, *options: Mapping[str, str]) -> Redactor:
        """A redactor that also removes the secrets in these options wherever they occur."""
        found: set[str] = set()
        for key, value in (item for given in options for item in given.items()):
            if self.is_secret(key):
                found |= {value, *self._within(value)}
            else:  # `token:string` of a schema must not remove "string" everywhere
                found |= {part for part in self._within(value) if not part.isalpha()}
        return Redactor(self._rule_text, self._secrets | found)

    def option(self, key: str, value: str) -> str:
        """The value of an option without secrets."""
        return REDACTED if self.is_secret(key) else self.text(value)

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        return {key: self.option(key, value) for key, value in options.items()}

    def text(self, text: str) -> str:
        """A text without secrets."""
        for _ in range(_MOST_ROUNDS):
            before, text = text, self._hide(text)
            if text == before:
                break
        return text

    def _hide(self, text: str) -> str:
        hidden = [*self._assigned(text), *_credentials(text), *self._occurrences(text)]
        return _replace(text, hidden) if hidden else text

    def record(self, value: Any) -> Any:
        """A copy of nested dataclasses, mappings, lists and tuples with all texts redacted.

        Keys of mappings are not changed and not matched as names: they may be names of sources.
        """
        if type(value) is str:
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.record(entry) for key, entry in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.record(entry) for entry in value)
        if is_dataclass(value) and not isinstance(value, type):
            texts = {f.name: self.record(getattr(value, f.name)) for f in fields(value) if f.init}
            return replace(value, **texts)
        return value

    def is_secret(self, key: str) -> bool:
        """Whether the value with this name is a secret."""
        if self._rule is not None and self._rule.search(key):
            return True
        return _NAME.search(key) is not None and _NO_NAME.search(key) is None

    def _within(self, text: str) -> set[str]:
        """The secrets inside the value of an option, such as a password in a JAAS configuration."""
        named = [text[part.start : part.end] for part in self._assigned(text)]
        inner = [value[part.start : part.end] for value in named for part in self._assigned(value)]
        in_urls = [text[part.start : part.end] for part in _credentials(text)]
        return {*named, *inner, *in_urls, *(pair.partition(":")[2] for pair in in_urls)}

    def _assigned(self, text: str) -> Iterator[_Hidden]:
        """The values after secret names, in order."""
        position = 0
        while match := _ASSIGNMENT.search(text, position):
            position = match.end()
            key = _key(text, match)
            if not self.is_secret(key):
                continue
            hidden = _value(text, position, key, match["close"] or "")
            position = max(position, hidden.end)
            if hidden.start < hidden.end:
                yield hidden

    def _occurrences(self, text: str) -> Iterator[_Hidden]:
        for match in self._values.finditer(text) if self._secrets else ():
            yield _Hidden(match.start(), match.end())


def _key(text: str, match: re.Match[str]) -> str:
    """The name before a value: all of it if it is quoted, both words of `access key`."""
    key: str = match["flag"] or match["key"]
    start = match.start("key")
    if match["close"]:
        opening = text.rfind(match["close"][-1], max(0, start - _LONGEST_NAME), start)
        if opening >= 0:
            return text[opening + 1 : match.end("key")]
    if key.lower() not in ("key", "keys"):
        return key
    before = _NAME_OF_TWO_WORDS.search(text[max(0, start - 16) : start])
    return (before[0] if before else "") + key


def _value(text: str, start: int, key: str, key_quote: str) -> _Hidden:
    """The span of the value after a secret name; empty if there is nothing to replace.

    The replacement of an unquoted value gets the quotes of its name, so that JSON stays valid.
    """
    quoted = _QUOTE.match(text, start)
    if quoted:
        return _Hidden(quoted.end(), _closing_quote(text, quoted.end(), quoted[1], quoted[2]))
    replacement = f"{key_quote}{REDACTED}{key_quote}"
    if _OPENING.match(text, start):
        offsets = _OFFSETS.match(text, start)
        if offsets:  # Kafka offsets of a topic with a secret name
            return _Hidden(offsets.end(), offsets.end())
        end = _closing_bracket(text, start)
        rest = _WORD.match(text, end)
        return _Hidden(start, rest.end() if rest else end, replacement)
    words = (_WORDS if _SEVERAL_WORDS.search(key) else _WORD).match(text, start)
    if words is None or (_COUNTED.search(key) and words[0].isdecimal()):
        return _Hidden(start, start)
    return _Hidden(start, words.end(), replacement)


def _closing_quote(text: str, start: int, escape: str, mark: str) -> int:
    """The position of the closing quote for a string that starts at `start`; else the text's end.

    A quote that is opened with n backslashes is closed by the first quote with n backslashes, not
    counting the escaped backslashes before it, which are a multiple of 2 (n + 1).
    """
    opened = len(escape)
    for match in _QUOTES[mark].finditer(text, start):
        if len(match[1]) % (2 * (opened + 1)) == opened:
            return match.end() - 1 - opened
    return len(text)


def _closing_bracket(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`; else the text's end."""
    depth = 0
    position = start
    while match := _QUOTE_OR_BRACKET.search(text, position):
        position = match.end()
        if match["quote"]:
            end = _closing_quote(text, position, match["escape"], match["quote"])
            position = end + len(match["escape"]) + 1
        else:
            depth += -1 if match["close"] else 1
            if depth == 0:
                return position
    return len(text)


def _credentials(text: str) -> Iterator[_Hidden]:
    """The span of `user:password` in URLs, or of the password if there is no scheme."""
    if "@" not in text:
        return
    for word in _NO_WHITESPACE_OR_QUOTE.finditer(text):
        last = word[0].rfind("@") + word.start()
        if last < word.start():
            continue
        scheme = text.find("://", word.start(), word.end())
        if scheme >= 0:
            yield from _credentials_in_urls(text, scheme, word.end(), last)
            last = text.rfind("@", word.start(), scheme)
        colon = text.find(":", word.start(), last)
        if word.start() < colon < last - 1 and text[max(0, colon - 6) : colon].lower() != "mailto":
            yield _Hidden(colon + 1, last)


def _credentials_in_urls(text: str, first: int, stop: int, last: int) -> Iterator[_Hidden]:
    """The spans between `//` and the last `@` before the path; a password may contain `@`.

    `first` is the position of the first `://`, `last` that of the last `@` before `stop`. A `/`
    belongs to the password if the text before it is not a port.
    """
    position = first
    while 0 <= position < last:
        start = position + 3
        slash = text.find("/", start, stop)
        end = stop if slash < 0 else slash
        at = text.rfind("@", start, end)
        colon = text.find(":", start, end)
        if at >= 0:
            if not _is_container(text, position, at):
                yield _Hidden(start, at)
        elif colon >= 0 and text[start] != "[" and not _PORT.match(text, colon + 1, stop):
            yield _Hidden(start, last)
            return
        position = text.find("://", start, stop)


def _is_container(text: str, scheme_end: int, at: int) -> bool:
    """Whether what is before the `@` is a container of Azure, as in `abfss://container@account`."""
    is_azure = _AZURE.search(text, max(0, scheme_end - 6), scheme_end) is not None
    return is_azure and ":" not in text[scheme_end + 3 : at]


def _replace(text: str, hidden: list[_Hidden]) -> str:
    """The text with these parts replaced; parts that overlap or touch are replaced as one."""
    hidden.sort()
    pieces: list[str] = []
    position, current = 0, hidden[0]
    for part in hidden[1:]:
        if part.start <= current.end:
            is_inside = part.end <= current.end
            replacement = current.replacement if is_inside else REDACTED
            current = _Hidden(current.start, max(current.end, part.end), replacement)
        else:
            pieces += text[position : current.start], current.replacement
            position, current = current.end, part
    return "".join(
        [*pieces, text[position : current.start], current.replacement, text[current.end :]]
    )


def _is_telling(secret: str) -> bool:
    return len(secret) >= SHORTEST_SECRET and secret.lower() not in (
        "true",
        "false",
        "null",
        "none",
    )


def _forms(secret: str) -> Iterator[str]:
    """The forms of a secret: plain, in JSON, in a Python literal, in a URL."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)


def _compiled(rule: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(rule or SPARK_RULE)
    except re.error:
        return None


DEFAULT_REDACTOR = Redactor()
"""For texts outside of queries: the built-in pattern only."""
