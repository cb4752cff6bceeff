import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.UUID;

/** Parses a progress record from JSON, which this Spark can only write. */
class ProgressRecords {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    static QueryProgress fromJson(String json) throws Exception {
        JsonNode record = MAPPER.readTree(json);
        StateOperatorProgress[] operators =
            new StateOperatorProgress[record.get("stateOperators").size()];
        for (int i = 0; i < operators.length; i++) {
            operators[i] = operator((JsonNode) record.get("stateOperators").get(i));
        }
        SourceProgress[] sources = new SourceProgress[record.get("sources").size()];
        for (int i = 0; i < sources.length; i++) {
            sources[i] = source((JsonNode) record.get("sources").get(i));
        }
        return ${new QueryProgress(
            id = UUID.fromString(text(record, "id")),
            runId = UUID.fromString(text(record, "runId")),
            name = text(record, "name"), timestamp = text(record, "timestamp"),
            batchId = number(record, "batchId"), batchDuration = number(record, "batchDuration"),
            durationMs = numbers((JsonNode) record.get("durationMs")),
            eventTime = texts((JsonNode) record.get("eventTime")), stateOperators = operators,
            sources = sources, sink = sink((JsonNode) record.get("sink")), observedMetrics = new java.util.HashMap())};
    }

    private static StateOperatorProgress operator(JsonNode record) {
        return ${new StateOperatorProgress(
            operatorName = text(record, "operatorName"),
            numRowsTotal = number(record, "numRowsTotal"),
            numRowsUpdated = number(record, "numRowsUpdated"),
            allUpdatesTimeMs = number(record, "allUpdatesTimeMs"),
            numRowsRemoved = number(record, "numRowsRemoved"),
            allRemovalsTimeMs = number(record, "allRemovalsTimeMs"),
            commitTimeMs = number(record, "commitTimeMs"),
            memoryUsedBytes = number(record, "memoryUsedBytes"),
            numRowsDroppedByWatermark = number(record, "numRowsDroppedByWatermark"),
            numShufflePartitions = number(record, "numShufflePartitions"),
            numStateStoreInstances = number(record, "numStateStoreInstances"),
            customMetrics = numbers((JsonNode) record.get("customMetrics")))};
    }

    private static SourceProgress source(JsonNode record) {
        return ${new SourceProgress(
            description = text(record, "description"), startOffset = text(record, "startOffset"),
            endOffset = text(record, "endOffset"), latestOffset = text(record, "latestOffset"),
            numInputRows = number(record, "numInputRows"),
            inputRowsPerSecond = rate(record, "inputRowsPerSecond"),
            processedRowsPerSecond = rate(record, "processedRowsPerSecond"),
            metrics = texts((JsonNode) record.get("metrics")))};
    }

    private static SinkProgress sink(JsonNode record) {
        return ${new SinkProgress(
            description = text(record, "description"),
            numOutputRows = number(record, "numOutputRows"),
            metrics = texts((JsonNode) record.get("metrics")))};
    }

    private static String text(JsonNode record, String field) {
        return record.hasNonNull(field) ? record.get(field).asText() : null;
    }

    private static long number(JsonNode record, String field) {
        return record.get(field).asLong();
    }

    private static double rate(JsonNode record, String field) {
        return Double.parseDouble(record.get(field).asText());
    }

    private static java.util.Map texts(JsonNode record) {
        java.util.Map values = new java.util.HashMap();
        for (java.util.Iterator names = record.fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            values.put(name, record.get(name).asText());
        }
        return values;
    }

    private static java.util.Map numbers(JsonNode record) {
        java.util.Map values = new java.util.HashMap();
        for (java.util.Iterator names = record.fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            values.put(name, Long.valueOf(record.get(name).asLong()));
        }
        return values;
    }
}
