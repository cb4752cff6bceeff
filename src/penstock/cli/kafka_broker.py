"""Asks a Kafka cluster for offsets, with the package confluent-kafka of the extra `kafka`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from penstock.checkpoint.known_offsets import TopicPartition
from penstock.checkpoint.tools.kafka_surgery import OffsetAtTime
from penstock.errors import EnvironmentProblemError, SurgeryRefusedError
from penstock.redaction import DEFAULT_REDACTOR

_TIMEOUT_SECONDS = 15.0
_NO_RECORD = -1


class KafkaBroker:
    """A cluster, given its `bootstrap_servers` and options of librdkafka as `name=value`.

    The values of options that are secrets are in no error message.
    """

    def __init__(self, bootstrap_servers: str | None, options: Sequence[str]) -> None:
        """Raises EnvironmentProblemError if the package is not installed, and SurgeryRefusedError
        if servers are missing or an option is not `name=value`."""
        self._package = _client_package()
        if not bootstrap_servers:
            raise SurgeryRefusedError(
                "--kafka-timestamp asks the broker: give --bootstrap-servers HOST:PORT, as in the "
                "option kafka.bootstrap.servers of the source."
            )
        self._servers = bootstrap_servers
        self._options = dict(_parsed(option) for option in options)
        self._redactor = DEFAULT_REDACTOR.knowing(self._options)
        self._problems: list[str] = []

    def offsets_at(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, OffsetAtTime]:
        client, spec = self._client(), self._package.admin.OffsetSpec
        at_time = self._ask(client, partitions, spec.for_timestamp(time_ms))
        without = [which for which, offset in at_time.items() if offset == _NO_RECORD]
        latest = self._ask(client, without, spec.latest()) if without else {}
        return {
            which: OffsetAtTime(latest[which], is_latest=True)
            if which in latest
            else OffsetAtTime(offset)
            for which, offset in at_time.items()
        }

    def _client(self) -> Any:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._servers,
            **self._options,
            "error_cb": lambda error: self._problems.append(error.str()),
            "log_level": 0,
        }
        try:
            return self._package.admin.AdminClient(settings)
        except (self._package.KafkaException, ValueError) as exc:
            raise self._refused("The options of the connection are not valid", exc) from exc

    def _ask(
        self, client: Any, partitions: Sequence[TopicPartition], spec: Any
    ) -> dict[TopicPartition, int]:
        asked = {self._package.TopicPartition(w.topic, w.partition): w for w in partitions}
        answers = client.list_offsets(dict.fromkeys(asked, spec), request_timeout=_TIMEOUT_SECONDS)
        found = {}
        for which, answer in answers.items():
            try:
                found[asked[which]] = int(answer.result().offset)
            except self._package.KafkaException as exc:
                client.poll(0)  # calls error_cb
                what = f"The broker {self._servers} did not return the offset of {asked[which]}"
                raise self._refused(what, exc) from exc
        return {which: found[which] for which in partitions}

    def _refused(self, what: str, exc: Exception) -> SurgeryRefusedError:
        error = exc.args[0] if exc.args else exc
        reason = error.str() if hasattr(error, "str") else str(error)
        reasons = dict.fromkeys([reason, *self._problems[-1:]])
        text = self._redactor.text(f"{what}: {'; '.join(reasons)}. Nothing was changed.")
        return SurgeryRefusedError(text)


def _client_package() -> Any:
    """The package confluent_kafka. Raises EnvironmentProblemError if it is not installed."""
    try:
        import_module("confluent_kafka.admin")
    except ModuleNotFoundError as exc:
        raise EnvironmentProblemError(
            "--kafka-timestamp needs the package confluent-kafka, which is not installed. Install "
            "the extra: pip install 'penstock[kafka]'"
        ) from exc
    return import_module("confluent_kafka")


def _parsed(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not name or not equals:
        raise SurgeryRefusedError(
            f"--kafka-option takes NAME=VALUE, and {name!r} has no value: give an option of "
            "librdkafka such as security.protocol=SSL."
        )
    return name, value
