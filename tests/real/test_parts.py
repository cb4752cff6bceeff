"""The parts themselves: what is missing is named, and a broker keeps its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real import parts, postgres
from tests.real.kafka import KafkaBroker
from tests.real.parts import MissingPartError, fetch
from tests.real.servers import is_listening
from tests.real.topics import Topics


def test_without_maven_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PARTS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPartError, match=r"some:jar:1.*apt-get install maven"):
        fetch("something", "some:jar:1")
    assert list(tmp_path.iterdir()) == []


def test_without_postgres_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    server = postgres.PostgresServer(tmp_path)
    with pytest.raises(MissingPartError, match="apt-get install postgresql"):
        server.start()
    server.remove()


def test_jars_that_are_there_need_neither_maven_nor_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PARTS", tmp_path)
    monkeypatch.setattr(parts, "_digest", lambda coordinates, transitive: "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "something-0").mkdir()
    jar = tmp_path / "something-0" / "jar-1.jar"
    jar.touch()
    assert fetch("something", "some:jar:1") == (jar,)


def test_a_broker_that_is_killed_has_its_data_and_its_port_when_it_is_started_again(
    own_broker: KafkaBroker,
) -> None:
    topics = Topics(own_broker.bootstrap_servers)
    topics.create("numbers", 2)
    topics.write("numbers", ["0", "1"])
    own_broker.kill()
    assert not is_listening(own_broker.port)
    own_broker.start()
    topics.write("numbers", ["2"])
    assert [record.value for record in topics.read("numbers")] == ["0", "1", "2"]
