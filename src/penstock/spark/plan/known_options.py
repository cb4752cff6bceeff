"""The options that Spark's own streaming sources and sinks read, to detect misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_LIKENESS = 0.8
"""The `difflib` similarity from which a name counts as a misspelling of another."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILE_FORMATS: Mapping[str, frozenset[str]] = {
    "csv": _names(
        "charToEscapeQuoteEscaping charset codec columnNameOfCorruptRecord columnPruning comment "
        "compression dateFormat delimiter emptyValue enableDateTimeParsingFallback encoding "
        "enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace "
        "ignoreTrailingWhiteSpace inferSchema inputBufferSize lineSep locale maxCharsPerColumn "
        "maxColumns mode multiLine nanValue negativeInf nullValue positiveInf preferDate quote "
        "quoteAll samplingRatio sep singleVariantColumn timeFormat timeZone timestampFormat "
        "timestampNTZFormat unescapedQuoteHandling"
    ),
    "json": _names(
        "allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers "
        "allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars "
        "allowUnquotedFieldNames charset columnNameOfCorruptRecord compression dateFormat "
        "dropFieldIfAllNull enableDateTimeParsingFallback encoding explodeEmbeddedArray "
        "ignoreNullFields inferTimestamp lineSep locale mode multiLine prefersDecimal pretty "
        "primitivesAsString samplingRatio singleVariantColumn sortKeys timeFormat timeZone "
        "timestampFormat timestampNTZFormat useUnsafeRow writeNonAsciiCharacterAsCodePoint"
    ),
    "xml": _names(
        "arrayElementName attributePrefix charset columnNameOfCorruptRecord compression dateFormat "
        "declaration encoding excludeAttribute ignoreNamespace ignoreSurroundingSpaces indent "
        "inferSchema locale mode multiLine nullValue preferDate prefersDecimal rootTag rowTag "
        "rowValidationXSDPath samplingRatio singleVariantColumn timeFormat timeZone "
        "timestampFormat timestampNTZFormat useLegacyXMLParser validateName valueTag "
        "wildcardColName"
    ),
    "avro": _names(
        "avroSchema avroSchemaUrl compression datetimeRebaseMode "
        "enableStableIdentifiersForUnionType ignoreExtension mode positionalFieldMatching "
        "recordName recordNamespace recursiveFieldMaxDepth stableIdentifierPrefixForUnionType"
    ),
    "parquet": _names("compression datetimeRebaseMode int96RebaseMode mergeSchema"),
    "orc": _names("compression mergeSchema"),
    "text": _names("compression encoding lineSep wholetext"),
    "binaryfile": frozenset(),
}

_ANY_FILES = _names(
    "archivePathFilter basePath ignoreCorruptFiles ignoreInvalidPartitionPaths ignoreMissingFiles "
    "ignoredPathSegmentRegex modifiedAfter modifiedBefore path pathGlobFilter recursiveFileLookup "
    "timeZone"
)

_FILE_SOURCE = _ANY_FILES | _names(
    "cleanSource discardCachedInputRatio fileNameOnly latestFirst maxBytesPerTrigger "
    "maxCachedFiles maxFileAge maxFilesPerTrigger sourceArchiveDir"
)

_FILE_SINK = _ANY_FILES | _names("maxRecordsPerFile partitionOverwriteMode retention")

_WRITER = _names(
    "asyncProgressTrackingCheckpointIntervalMs asyncProgressTrackingEnabled checkpointLocation "
    "kafkaConsumerGroup path queryName"
)
"""The options that the writer reads for every sink."""

SOURCES: Mapping[str, frozenset[str]] = {
    **{name: options | _FILE_SOURCE for name, options in _FILE_FORMATS.items()},
    "kafka": _names(
        "assign endingOffsets endingOffsetsByTimestamp endingTimestamp failOnDataLoss "
        "groupIdPrefix includeHeaders maxOffsetsPerTrigger maxRecordsPerPartition maxTriggerDelay "
        "minOffsetsPerTrigger minPartitions startingOffsets startingOffsetsByTimestamp "
        "startingOffsetsByTimestampStrategy startingTimestamp subscribe subscribePattern"
    ),
    "rate": _names("numPartitions rampUpTime rowsPerSecond"),
    "rate-micro-batch": _names("advanceMillisPerBatch numPartitions rowsPerBatch startTimestamp"),
    "socket": _names("host includeTimestamp numPartitions port"),
}
"""By format in lower case. Names with a dot, such as Kafka client options, are left out."""

SINKS: Mapping[str, frozenset[str]] = {
    **{name: options | _FILE_SINK | _WRITER for name, options in _FILE_FORMATS.items()},
    "console": _WRITER | _names("numRows truncate"),
    "foreach": _WRITER,
    "foreachbatch": _WRITER,
    "kafka": _WRITER | _names("includeHeaders topic"),
    "memory": _WRITER,
    "noop": _WRITER,
}
"""The same for sinks, with the options of the writer."""


def misspelt_in_source(source_format: str, names: Iterable[str]) -> dict[str, str]:
    """The unknown options of a source, each with the most similar known name.

    An option without a similar name is left out. Empty for a format that is not Spark's own.
    """
    return _misspelt(SOURCES.get(source_format.lower()), names)


def misspelt_in_sink(sink_format: str, names: Iterable[str]) -> dict[str, str]:
    """The same for a sink. For an unknown format, only the writer's options are compared."""
    known = SINKS.get(sink_format.lower())
    return _misspelt(_names("checkpointLocation") if known is None else known, names)


def _misspelt(known: frozenset[str] | None, names: Iterable[str]) -> dict[str, str]:
    if known is None:
        return {}
    by_lower = {name.lower(): name for name in known}
    found = {}
    for name in names:
        lower = name.lower()
        if lower in by_lower or "." in name or name.startswith("_"):
            continue  # options with a dot go to Hadoop, Parquet, ORC or Kafka clients
        for nearest in difflib.get_close_matches(lower, by_lower, n=1, cutoff=_LIKENESS):
            found[name] = by_lower[nearest]
    return found
