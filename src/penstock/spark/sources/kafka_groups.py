"""Commits the offsets of a query's Kafka sources to a consumer group, for tools that show lag.

The group is only written: the query always starts from its checkpoint. The commits are made by a
thread of their own with the Kafka client in the JVM. If several batches end during a commit, only
the newest offsets are committed next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from penstock.checkpoint.known_offsets import KafkaOffset, TopicPartition, parse_known
from penstock.engine.log_context import LogContext, enter_query, leave_query
from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.spark.jvm.java_side import joined
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sources.spark_sources import JvmMicroBatchStream, JvmSource

_logger = logging.getLogger(__name__)

CONSUMER_GROUP = "kafkaConsumerGroup"
"""The option of the writer that names the group."""

_PREFIX = "kafka."
_SERVERS = "bootstrap.servers"
_COMMIT_SECONDS = 30.0
_RETRY_SECONDS = 30.0
_LAST_COMMIT_SECONDS = 5.0
_CLOSE_SECONDS = 1.0

_REMEDIES = {
    "UnknownMemberIdException": "Consumers use this group: choose another one for the query.",
    "GroupAuthorizationException": "The user of the source needs the permission READ on the group.",
    "TopicAuthorizationException": "The user of the source needs the permission READ on the topic.",
}

KafkaStream = JvmMicroBatchStream | JvmSource
Offsets = dict[TopicPartition, int]
_Ends = tuple[int, dict[KafkaStream, str]]
"""A batch and the end offset of each source in it, as JSON."""


class KafkaGroupReporter(RunObserver):
    """Commits the end offsets of each committed batch of one run to a consumer group.

    A failure is logged as a warning, once for each class of error, and does not affect the run. The
    offsets are then committed with those of the next batch, or after 30 seconds. When the run ends,
    the last offsets are committed within five seconds, or not at all.
    """

    def __init__(self, session: SparkStreamSession, group: str) -> None:
        self._session = session
        self._group = group
        self._clients = _Clients(session)
        self._changed = threading.Condition()
        self._newest: _Ends | None = None
        self._is_ending = False
        self._thread: threading.Thread | None = None
        self._has_warned_of_sources = False
        self._known_errors: set[str] = set()

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        if not progress.ran_a_batch or run.runtime is None:
            return
        sources = dict.fromkeys(run.runtime.plan.sources)
        ends = {
            source: reported.end_offset
            for source, reported in zip(sources, progress.sources, strict=True)
            if isinstance(source, KafkaStream)
            and reported.end_offset is not None
            and f"{_PREFIX}{_SERVERS}" in _lower(source.options)
        }
        if not ends:
            self._warn_of_sources()
            return
        with self._changed:
            self._newest = (progress.batch_id, ends)
            self._changed.notify_all()
        if self._thread is None:
            name = f"penstock offsets of {run.identity}"
            self._thread = self._session.create_thread(lambda: self._run(run), name)
            self._thread.start()

    def on_ended(self, run: StreamExecution) -> None:
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_COMMIT_SECONDS + _CLOSE_SECONDS)

    def _run(self, run: StreamExecution) -> None:
        identity = run.identity
        enter_query(LogContext(identity.id, identity.run_id, identity.name, run.redactor))
        try:
            self._commit_until_the_end()
        finally:
            self._clients.close()
            leave_query()

    def _commit_until_the_end(self) -> None:
        done: _Ends | None = None
        failed: _Ends | None = None
        is_ending = False
        while not is_ending:
            newest, is_ending = self._wait_for_other(failed or done, is_failed=failed is not None)
            if newest is not None and newest is not done:
                has_committed = self._commit(*newest, is_ending)
                done, failed = (newest, None) if has_committed else (done, newest)

    def _wait_for_other(self, tried: _Ends | None, *, is_failed: bool) -> tuple[_Ends | None, bool]:
        """Wait for newer offsets than those tried, the end of the run, or the time to retry.

        Returns the newest offsets, and whether the run ends.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_ending or self._newest is not tried,
                _RETRY_SECONDS if is_failed else None,
            )
            return self._newest, self._is_ending

    def _commit(self, batch_id: int, ends: Mapping[KafkaStream, str], is_last: bool) -> bool:
        """Commit the offsets of a batch; returns whether it succeeded."""
        seconds = _LAST_COMMIT_SECONDS if is_last else _COMMIT_SECONDS
        try:
            error = self._clients.commit(self._group, ends, seconds)
        except Exception as exc:  # the JVM is gone, or has no Kafka client
            error = f"{type(exc).__name__}: {exc}"
        if error is None:
            _logger.debug("Committed batch %s to the consumer group %s", batch_id, self._group)
            return True
        self._warn(batch_id, error)
        return False

    def _warn(self, batch_id: int, error: str) -> None:
        kind = error.partition(":")[0]
        level = logging.DEBUG if kind in self._known_errors else logging.WARNING
        self._known_errors.add(kind)
        _logger.log(
            level,
            "The offsets of batch %s were not committed to the Kafka consumer group %s. The query "
            "is not affected, and this error is not logged again. %s",
            batch_id,
            self._group,
            f"{error} {_REMEDIES.get(kind, '')}".strip(),
        )

    def _warn_of_sources(self) -> None:
        if not self._has_warned_of_sources:
            self._has_warned_of_sources = True
            _logger.warning(
                "The option %s has no effect: the query has no Kafka source.", CONSUMER_GROUP
            )


class _Clients:
    """The clients of the clusters that a query reads, one for each set of client options."""

    def __init__(self, session: SparkStreamSession) -> None:
        self._session = session
        self._clients: dict[frozenset[tuple[str, str]], Any] = {}

    def commit(self, group: str, ends: Mapping[KafkaStream, str], seconds: float) -> str | None:
        """Commit offsets to the group in each cluster; returns the first error as text."""
        clusters: dict[frozenset[tuple[str, str]], Offsets] = {}
        streams: dict[frozenset[tuple[str, str]], KafkaStream] = {}
        for stream, end in ends.items():
            options = frozenset(_client_options(stream.options).items())
            streams.setdefault(options, stream)
            _add(clusters.setdefault(options, {}), end)
        errors = []
        for options, offsets in clusters.items():
            client = self._client(options, streams[options])
            errors.append(client.commit(group, _encoded(offsets), int(seconds * 1000)))
        return next((str(error) for error in errors if error is not None), None)

    def close(self) -> None:
        for client in self._clients.values():
            try:
                client.close(int(_CLOSE_SECONDS * 1000))
            except Exception:
                _logger.debug("A Kafka client could not be closed", exc_info=True)
        self._clients.clear()

    def _client(self, options: frozenset[tuple[str, str]], stream: KafkaStream) -> Any:
        found = self._clients.get(options)
        if found is None:
            encoded = joined(text for option in sorted(options) for text in option)
            found = self._session.jvm.java.start.kafkaGroup(stream.jstream, encoded)
            self._clients[options] = found
        return found


def _client_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a source that are those of its Kafka clients, without their prefix."""
    own = {name: value for name, value in _lower(options).items() if name.startswith(_PREFIX)}
    return {name.removeprefix(_PREFIX): value for name, value in own.items()}


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _add(offsets: Offsets, end: str) -> None:
    """Add the offsets of a source. Of a partition that two sources read, the smaller counts."""
    known = parse_known(end)
    if isinstance(known, KafkaOffset):
        for which, offset in known.partitions.items():
            offsets[which] = min(offset, offsets.get(which, offset))


def _encoded(offsets: Offsets) -> str:
    return joined(
        text
        for which, offset in offsets.items()
        for text in (which.topic, str(which.partition), str(offset))
    )
