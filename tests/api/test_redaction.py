"""Secrets do not get into what is shown."""

from __future__ import annotations

import pytest

from penstock.api.redaction import REDACTED, Redactor


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "kafka.ssl.keystore.Password",
        "kafka.sasl.jaas.config",
        "clientSecret",
        "auth-token",
        "fs.s3a.access.key",
        "accessKey",
        "fs.azure.account.key.some.host",
        "api_key",
    ],
)
def test_options_that_sound_like_secrets_are_hidden(key: str) -> None:
    assert Redactor().options({key: "hush"}) == {key: REDACTED}


@pytest.mark.parametrize("key", ["topic", "keySchema", "path", "queryName", "monkey"])
def test_others_are_shown(key: str) -> None:
    assert Redactor().options({key: "plain"}) == {key: "plain"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://user:hush@bucket/x", f"s3a://{REDACTED}@bucket/x"),
        ("jdbc:pg://u:hu@sh@host/db", f"jdbc:pg://{REDACTED}@host/db"),
        (
            "jdbc:x://h/db?user=me&password=hush&a=b",
            f"jdbc:x://h/db?user=me&password={REDACTED}&a=b",
        ),
        ("Login(username=me, password='hush')", f"Login(username=me, password={REDACTED})"),
        ('{"apiToken": "hush", "n": 1}', f'{{"apiToken": {REDACTED}, "n": 1}}'),
        ("Map(secret -> hush, a -> b)", f"Map(secret -> {REDACTED}, a -> b)"),
        ("Authorization token: hush", f"Authorization token: {REDACTED}"),
        ("nothing to hide: mail me@here.org", "nothing to hide: mail me@here.org"),
    ],
)
def test_texts_are_cleaned(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


def test_a_long_text_takes_no_time() -> None:
    blob = "x" * 200_000
    assert Redactor().text(f"{blob} token={blob}") == f"{blob} token={REDACTED}"


def test_the_rule_of_the_session_is_heeded() -> None:
    redactor = Redactor("(?i)fishy")
    assert redactor.options({"Fishy": "hush", "other": "x"}) == {"Fishy": REDACTED, "other": "x"}


def test_a_rule_that_python_cannot_read_is_spark_s_default() -> None:
    assert Redactor("(?<oops").option("password", "hush") == REDACTED
