"""The settings of a query's own session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.settings import KEYS
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of, joined

_READ_TOGETHER = (
    *KEYS.values(),
    "spark.redaction.regex",
    "spark.sql.codegen.useIdInClassName",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.disabledV2MicroBatchReaders",
    "spark.sql.streaming.internal.stateStore.partitions",
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.offsetLog.formatVersion",
    "spark.sql.streaming.queryEvolution.enableSinkEvolution",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.stateStore.commitValidation.enabled",
    "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag",
)
"""The settings that every start reads, in one call. Others cost one call each."""


class SessionConf:
    """Settings, read in one call and cached until they are changed here."""

    def __init__(self, jvm: Jvm, jsession: Any) -> None:
        self._jvm = jvm
        self._jsession = jsession
        self._known: dict[str, str] = {}

    def get(self, key: str) -> str:
        """A setting's value, or its default. Spark's own error if it has neither."""
        value = self.find(key)
        return value if value is not None else str(self._jsession.conf().get(key))

    def find(self, key: str) -> str | None:
        """A setting's value, or its default, or None if it has neither.

        None for a setting that this Spark line does not have, even if it is set.
        """
        _, equals, value = self._answer(key).partition("=")
        return value if equals else None

    def is_on(self, key: str) -> bool:
        """Whether a setting is true, as Spark parses it. False if this Spark lacks it."""
        return (self.find(key) or "").strip().lower() == "true"

    def is_set(self, key: str) -> bool:
        """Whether a setting is set explicitly, even if to its default."""
        return self._answer(key).startswith("!")

    def set(self, settings: Mapping[str, str]) -> None:
        """Change settings, in one call."""
        texts = [text for item in settings.items() for text in item]
        self._jvm.java.start.configure(self._jsession, joined(texts))
        self._known.update((key, f"!={value}") for key, value in settings.items())

    def forget(self) -> None:
        """Clear the cache, after settings were changed elsewhere."""
        self._known = {}

    def _answer(self, key: str) -> str:
        """The encoded setting: `!` if it is set, then `=` and the value if it has one."""
        if not self._known:
            self._read(_READ_TOGETHER)
        if key not in self._known:
            self._read((key,))
        return self._known[key]

    def _read(self, keys: tuple[str, ...]) -> None:
        answers = fields_of(self._jvm.java.start.settings(self._jsession, joined(keys)))
        self._known.update(zip(keys, answers, strict=True))
