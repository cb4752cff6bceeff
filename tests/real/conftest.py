"""Fixtures: servers that run for the whole test run, and the connectors' jars for the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.real.jars import installed_line, kafka_connector, postgres_driver, spark_jars
from tests.real.kafka import KafkaBroker
from tests.real.lakehouses import LAKEHOUSES, available, lakehouse_jars, lakehouse_settings
from tests.real.postgres import PostgresServer
from tests.real.reports import REPORTS
from tests.real.topics import Topics, new_name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills",
        type=int,
        default=3,
        help="how many times each pipeline's process is killed, and how many times its JVM",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the installed line of Spark has no jars for: `pytest.mark.delta`."""
    for name, lines in LAKEHOUSES.items():
        if item.get_closest_marker(name) is not None and name not in available():
            have = " or ".join(lines)
            pytest.skip(f"{name} has no jars for Spark {installed_line()}, but for {have}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that the tests have reported."""
    if REPORTS:
        terminalreporter.section("figures")
        for line in REPORTS:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """The number of kills of each kind."""
    count: int = request.config.getoption("--kills")
    return count


@pytest.fixture(scope="session")
def spark_conf(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The connectors that this line of Spark has."""
    lakehouses = available()
    jars = spark_jars(kafka_connector(), postgres_driver(), lakehouse_jars(*lakehouses))
    settings = lakehouse_settings(tmp_path_factory.mktemp("lake"), *lakehouses)
    return {"spark.jars": jars, **settings}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running broker. A test that stops it uses `own_broker`."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running broker of one test, which may stop, kill and start it."""
    with KafkaBroker(tmp_path_factory.mktemp("own-kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def topics(broker: KafkaBroker) -> Topics:
    """The topics of the broker."""
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def topic(topics: Topics) -> str:
    """The name of a new topic with two partitions."""
    name = new_name("topic")
    topics.create(name, 2)
    return name


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server
