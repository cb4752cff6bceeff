"""Secrets do not get into what is shown, and nothing else is kept out."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.redaction import REDACTED, SPARK_RULE, Redactor

SECRET_NAMES = [
    "password",
    "Passwd",
    "db_pwd",
    "kafka.ssl.keystore.Password",
    "kafka.sasl.jaas.config",
    "sasl.jaas.config",
    "clientSecret",
    "secrets",
    "access_token",
    "auth-token",
    "accesstoken",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "accessKey",
    "AWSAccessKeyId",
    "access-key",
    "fs.azure.account.key.some.host",
    "SharedAccessKey",
    "api_key",
    "apikey",
    "x-api-key",
    "privateKey",
    "credential",
    "credentials",
    "Authorization",
    "X-Amz-Signature",
    "sig",
    "passphrase",
]
PLAIN_NAMES = [
    "topic",
    "keySchema",
    "path",
    "queryName",
    "monkey",
    "primary_key",
    "key",
    "secretary",
    "tokenizer",
    "sigma",
    "significant",
    "InvalidTokenException",
    "TokenManager.scala",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_options_that_sound_like_secrets_are_hidden(name: str) -> None:
    assert Redactor().options({name: "hush"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["my+pwd+2", "the token of x", "db/password/1"])
def test_a_quoted_name_counts_as_a_whole(name: str) -> None:
    document = json.dumps({name: "hush", "topic": "plain"})
    shown = {name: REDACTED, "topic": "plain"}
    assert json.loads(Redactor().text(document)) == shown
    escaped = json.dumps({"options": document})
    assert json.loads(json.loads(Redactor().text(escaped))["options"]) == shown


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_others_are_shown(name: str) -> None:
    assert Redactor().options({name: "plain"}) == {name: "plain"}
    for sign in ("=", ": ", " -> "):
        assert Redactor().text(f"{name}{sign}plain") == f"{name}{sign}plain"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Error: password=hunter2", f"Error: password={REDACTED}"),
        (
            "could not connect: password=hunter2 rejected",
            f"could not connect: password={REDACTED} rejected",
        ),
        ("config: {password: hunter2}", f"config: {{password: {REDACTED}}}"),
        (
            "jdbc:postgresql://h/db?password=hunter2&user=u",
            f"jdbc:postgresql://h/db?password={REDACTED}&user=u",
        ),
        ("url=jdbc:x://h/db?password=hunter2", f"url=jdbc:x://h/db?password={REDACTED}"),
        ("options: token=hunter2", f"options: token={REDACTED}"),
        (
            "https://api.example.com/v1?access_token=hunter2",
            f"https://api.example.com/v1?access_token={REDACTED}",
        ),
        (
            "GET https://x/y?api_key=hunter2 failed",
            f"GET https://x/y?api_key={REDACTED} failed",
        ),
        ("dsn='host=h password=hunter2'", f"dsn='host=h password={REDACTED}'"),
        ('connect(dsn="password=hunter2")', f'connect(dsn="password={REDACTED}")'),
        ("login?next=%3Fpassword%3Dhunter2", f"login?next=%3Fpassword%3D{REDACTED}"),
        # URLs
        ("s3a://user:hunter2@bucket/x", f"s3a://{REDACTED}@bucket/x"),
        ("jdbc:pg://u:hun@ter2@host/db", f"jdbc:pg://{REDACTED}@host/db"),
        ("x://u:hun/ter2@host/db", f"x://{REDACTED}@host/db"),
        ("abfs://user:hunter2@account/x", f"abfs://{REDACTED}@account/x"),
        ("xabfs://hunter2@account/x", f"xabfs://{REDACTED}@account/x"),
        ("x://u:hunter2@h,y://v:hunter2@i/", f"x://{REDACTED}@h,y://{REDACTED}@i/"),
        ("user:hunter2@host", f"user:{REDACTED}@host"),
        ("jdbc:oracle:thin:scott/hunter2@//h:1/x", f"jdbc:{REDACTED}@//h:1/x"),
        # Quoted values
        ("Login(username=me, password='hun ter2')", f"Login(username=me, password='{REDACTED}')"),
        ("password=b'hun ter2'", f"password=b'{REDACTED}'"),
        ('password="hun ter2', f'password="{REDACTED}'),
        ('.option("password", "hun ter2")', f'.option("password", "{REDACTED}")'),
        ("conf['password'] = 'hunter2'", f"conf['password'] = '{REDACTED}'"),
        ("`pwd`='hun ter2', 1", f"`pwd`='{REDACTED}', 1"),
        # JSON
        ('{"apiToken": "hunter2", "n": 1}', f'{{"apiToken": "{REDACTED}", "n": 1}}'),
        ('{"pwd":12345,"n":1}', f'{{"pwd":"{REDACTED}","n":1}}'),
        ('{"tokens":["hunter2",1],"n":1}', f'{{"tokens":"{REDACTED}","n":1}}'),
        ('{"token":{"a":"}hunter2"},"n":1}', f'{{"token":"{REDACTED}","n":1}}'),
        (r'{"a":"{\"pwd\":\"hun\\\"ter2\"}"}', rf'{{"a":"{{\"pwd\":\"{REDACTED}\"}}"}}'),
        (r'{"a":"{\"pwd\":5}"}', rf'{{"a":"{{\"pwd\":\"{REDACTED}\"}}"}}'),
        # What Java and Scala print
        ("Map(secret -> hunter2, a -> b)", f"Map(secret -> {REDACTED}, a -> b)"),
        ("{secret=hun,ter2, a=b}", f"{{secret={REDACTED}, a=b}}"),
        # Values of several words
        ("Authorization: Bearer hunter2\nHost: h", f"Authorization: {REDACTED}\nHost: h"),
        ('-H "Authorization: Basic hunter2" x', f'-H "Authorization: {REDACTED}" x'),
        ("{authorization=Bearer hunter2, a=b}", f"{{authorization={REDACTED}, a=b}}"),
        (
            'sasl.jaas.config=Plain required username="u" password="hun ter2"; a=b',
            f"sasl.jaas.config={REDACTED}; a=b",
        ),
        (
            'a="Plain required username=\\"u\\" password=\\"hunter2\\";"',
            f'a="Plain required username=\\"u\\" password=\\"{REDACTED}\\";"',
        ),
        # Other forms of names
        ("Authorization token: hunter2", f"Authorization token: {REDACTED}"),
        ("no such api key: hunter2", f"no such api key: {REDACTED}"),
        ("tool --db-password hunter2 --fast", f"tool --db-password {REDACTED} --fast"),
    ],
)
def test_a_secret_is_hidden(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "nothing to hide: mail me@here.org or mailto:me@here.org",
        "the token is gone, as is the secret of the password",
        "Unexpected token } in JSON: see below",
        "tokens=5, max_tokens: 4096",
        "an invalid token:\nsecond line",
        '{"token-events":{"0":5,"1":-2},"other":{"0":7}}',
        "com.x.InvalidTokenException: bad thing",
        "\tat x.TokenManager.run(TokenManager.scala:42)",
        'File "/x/token.py", line 3, in token',
        "https://host:8080/x?mail=a@b.org",
        "https://[::1]:8080/x@y",
        "abfss://container@account.dfs.core.windows.net/x",
        "at ABFS://container@account/x, gone",
        "jdbc:mysql://host:3306,other:3306/db",
        "KafkaV2[Subscribe[access-tokens]]",
        "[INVALID_TOKEN] 2026-11-16 12:30:00: x = 5",
        "password:",
        "password=, user=u",
    ],
)
def test_ordinary_text_comes_out_as_it_was(text: str) -> None:
    assert Redactor().text(text) == text


names = st.sampled_from([name for name in SECRET_NAMES if name != "sig"])  # a word of its own
words = st.text(string.ascii_letters + string.digits + "_-.~!*$+", min_size=4, max_size=20).map(
    lambda word: f"Hu{word}h2"  # no number, and of no length that would occur by chance
)
anything = st.one_of(
    st.text(max_size=30),
    st.text("ab =:;,&?@/\\\"'`()[]{}<>-.%\n", max_size=30),
)


def assert_hidden(secret: str, text: str, redactor: Redactor | None = None) -> None:
    redactor = redactor or Redactor()
    shown = redactor.text(text)
    assert secret not in shown
    assert redactor.text(shown) == shown


signs = st.sampled_from(["=", ": ", ":", " = ", "->", " -> ", "=>"])


@given(anything, names, signs, words, anything)
def test_no_value_after_its_name(before: str, name: str, sign: str, value: str, after: str) -> None:
    assume(value not in before + after)
    assert_hidden(value, f"{before}{name}{sign}{value}{after}")


@given(anything, names, st.sampled_from("'\""), words, words, anything)
def test_no_value_of_several_words_in_quotes(
    before: str, name: str, quote: str, first: str, second: str, after: str
) -> None:
    assume(second not in before + first + after)
    assert_hidden(second, f"{before}{name}={quote}{first} \\{quote}, {second}{quote}{after}")


@given(anything, words, words, anything)
def test_no_password_in_a_url(before: str, user: str, password: str, after: str) -> None:
    assume(password not in before + user + after)
    assert_hidden(password, f"{before}https://{user}:{password}@host/{after}")
    assert_hidden(password, f"{before} {user}:{password}@host {after}")


@given(st.dictionaries(names | words, words | st.integers(), min_size=1), st.integers(0, 3))
def test_json_stays_json_however_deeply_it_is_nested(
    document: dict[str, str | int], depth: int
) -> None:
    text = json.dumps(document)
    for _ in range(depth):
        text = json.dumps({"inner": text})
    found = Redactor().text(text)
    for _ in range(depth):
        found = json.loads(found)["inner"]
    is_secret = Redactor().is_secret
    assert json.loads(found) == {
        key: REDACTED if is_secret(key) else value for key, value in document.items()
    }


PLAIN_WORDS = [
    *("token", "the secret", "password", "secretary", "monkey:", "x=5", "primary_key=3"),
    *("tokens=5", "(token)", "'secret'", "at 12:30:01,", "https://h:80/p?q=1", '{"a":{"0":5}}'),
    *("me@here.org", "Map(a -> b)", "KeyError: 'x'", "Error:", "x -> y", "--fast", "C:\\x"),
    *("[a, b]", "-", "=", "é"),
]


@given(st.lists(st.sampled_from(PLAIN_WORDS), max_size=20).map(" and ".join))
def test_sentences_come_out_as_they_were(text: str) -> None:
    assert Redactor().text(text) == text


@given(st.text(st.characters(exclude_characters="=:>@%-,")))
def test_texts_without_any_sign_come_out_as_they_were(text: str) -> None:
    assert Redactor().text(text) == text


FRAGMENTS = [
    *(*SECRET_NAMES, *PLAIN_WORDS, REDACTED, "hunter2", "tokens", "\n", "--", "->", "://"),
    *"""=: ,;&@\\"'`(){}[]""",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    shown = Redactor().text(text)
    assert Redactor().text(shown) == shown


@given(anything, st.text(min_size=4, max_size=20), anything)
def test_the_values_of_secret_options_are_hidden_wherever_they_occur(
    before: str, secret: str, after: str
) -> None:
    assume(secret not in REDACTED and secret.lower() not in ("true", "false", "null", "none"))
    redactor = Redactor().knowing({"sinkToken": secret}, {"path": "/x"})
    for written in (secret, json.dumps(secret), repr(secret)):
        shown = redactor.text(f"{before}{written}{after}")
        assert secret not in shown.replace(REDACTED, "")


def test_secrets_within_the_values_of_options_are_hidden_wherever_they_occur() -> None:
    redactor = Redactor().knowing(
        {"kafka.sasl.jaas.config": 'Plain required username="u" password="hunter2";'},
        {"url": "jdbc:x://h/db?password=hunter3&user=u", "dsn": "x://u:hunter4@h/"},
    )
    assert redactor.text("hunter2, hunter3, hunter4") == ", ".join([REDACTED] * 3)
    assert redactor.text("Plain required of u at /db") == "Plain required of u at /db"


def test_a_plain_word_within_an_option_that_is_no_secret_is_left_in_other_texts() -> None:
    redactor = Redactor().knowing({"schema": "struct<token:string>"})
    assert redactor.text("a string") == "a string"


@pytest.mark.parametrize("value", ["a", "no", "true", "False", ""])
def test_a_value_that_tells_nothing_is_hidden_behind_its_name_only(value: str) -> None:
    redactor = Redactor().knowing({"token": value})
    assert redactor.text("a true story, no false one") == "a true story, no false one"
    assert redactor.option("token", value) == REDACTED


LONG = [
    *("x", " ", "\\", '\\"', "a:", "a.", "a!", "://", "a://b:c/", ",a", ",a ", "a@", "a:@", "a ="),
    *("token='", 'token="', "token={", "token=[", "tokens=", "jaas='", "--a ", "key: ", '"0":1,'),
    *("(", ")", '="', "='\""),
]


@pytest.mark.parametrize("piece", LONG)
@pytest.mark.parametrize("head", ["", "token=", "token={", "jaas=", "x://u:p@"])
def test_a_long_text_takes_no_longer_than_its_length(head: str, piece: str) -> None:
    """Time by the square of the length would be minutes for each."""
    text = head + piece * 30_000
    shown = Redactor(secrets=["hunter2"]).text(text)
    assert len(shown) <= 4 * len(text) + len(REDACTED)


def test_the_rule_of_the_session_is_heeded_as_well() -> None:
    redactor = Redactor("(?i)fishy")
    assert redactor.options({"Fishy": "hush", "other": "x"}) == {"Fishy": REDACTED, "other": "x"}
    assert redactor.text("a.fishy.b=hush pwd=hush") == f"a.fishy.b={REDACTED} pwd={REDACTED}"
    assert redactor.knowing({"fishy": "hush"}).text("hush!") == f"{REDACTED}!"


def test_spark_s_default_rule_is_read_as_words() -> None:
    assert Redactor(SPARK_RULE).text("secretary: Ann") == "secretary: Ann"


def test_a_rule_that_python_cannot_read_leaves_ours() -> None:
    assert Redactor("(?<oops").option("password", "hush") == REDACTED


class Kind(str, Enum):
    TOKEN = "token=hush"


@dataclass(frozen=True)
class Report:
    text: str
    kind: Kind
    parts: tuple[dict[str, object], ...]
    path: Path
    number: int = 5


def test_all_texts_of_a_record_are_cleaned() -> None:
    report = Report("pwd=hush", Kind.TOKEN, ({"token": "a", "b": ["pwd=hush"]},), Path("x"))
    assert Redactor().record(report) == Report(
        f"pwd={REDACTED}", Kind.TOKEN, ({"token": "a", "b": [f"pwd={REDACTED}"]},), Path("x")
    )
