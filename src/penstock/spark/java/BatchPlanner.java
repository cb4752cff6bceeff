import java.util.UUID;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.collection.mutable.HashMap;
import scala.runtime.AbstractFunction0;

/** Creates the IncrementalExecution of each batch of a query from the plan that writes it. */
public class BatchPlanner {
    private final ClassicSession session;
    private final StreamingPlan leaves;
    private final LogicalPlan write;
    private final OutputMode outputMode;
    private final String statePath;
    private final UUID queryId;
    private final UUID runId;
    private final HashMap stateIds;
    private final HashMap stateSchemas = new HashMap();
    private final java.util.Map parsedLast = new java.util.LinkedHashMap();
    private final boolean isTerminating;
    private final boolean joinsStreams;
    private final WatermarkPropagator propagator;
    private final ConfBroadcasts broadcasts;
    private final KeptPlans keptPlans;

    BatchPlanner(
            ClassicSession session, StreamingPlan leaves, LogicalPlan write, OutputMode outputMode,
            String statePath, String queryId, String runId, HashMap stateIds,
            boolean isTerminating) {
        this.session = session;
        this.leaves = leaves;
        this.write = write;
        this.outputMode = outputMode;
        this.statePath = statePath;
        this.queryId = UUID.fromString(queryId);
        this.runId = UUID.fromString(runId);
        this.stateIds = stateIds;
        this.isTerminating = isTerminating;
        propagator = WatermarkPropagator$.MODULE$.apply(session.sessionState().conf());
        joinsStreams = leaves.joinsStreams();
        broadcasts = ConfBroadcasts.of(session.sparkContext());
        keptPlans = new KeptPlans(session, write);
    }

    /**
     * The execution of a batch, planned, with the data that was last set on the leaves. The
     * metadata of the batch and of the one before it, which may be null, is JSON.
     */
    public QueryExecution execution(
            long batchId, long timestampMs, String before, String metadata, boolean isFirst,
            boolean isAnalyzed) {
        LogicalPlan plan = leaves.withData(write);
        if (plan.containsPattern(TreePattern.CURRENT_LIKE())) { plan = atTime(plan, timestampMs); }
        plan = plan instanceof WriteToMicroBatchDataSource
            ? (LogicalPlan) ((WriteToMicroBatchDataSource) plan).withNewBatchId(batchId)
            : (LogicalPlan) ((WriteToMicroBatchDataSourceV1) plan).withNewBatchId(batchId);
        if (isAnalyzed) { plan.setAnalyzed(); }
        LogicalPlan[] data = isAnalyzed ? leaves.plainData() : null;
        QueryExecution execution =
            executionOf(plan, batchId, before, metadata, isFirst, data, timestampMs);
        propagator.purge(batchId - 2); // planning adds those of this batch, and reads the last ones
        if (joinsStreams) { broadcasts.begin(runId); } // planning it broadcasts configurations
        try {
            execution.executedPlan();
        } finally {
            if (joinsStreams) { broadcasts.end(); }
        }
        return execution;
    }

    /** The execution of another plan, without streaming leaves, in the place of the batch's. */
    public QueryExecution executionOf(
            LogicalPlan plan, long batchId, String before, String metadata, boolean isFirst) {
        return executionOf(plan, batchId, before, metadata, isFirst, null, 0);
    }

    /** The execution of a plan; if `data` is not null, with the optimized plan that was kept. */
    private QueryExecution executionOf(
            LogicalPlan plan, long batchId, String before, String metadata, boolean isFirst,
            final LogicalPlan[] data, final long timestampMs) {
        return ${new IncrementalExecution(
            sparkSession = session, logicalPlan = plan, outputMode = outputMode,
            checkpointLocation = statePath, queryId = queryId, runId = runId,
            currentBatchId = batchId, prevOffsetSeqMetadata = Option.apply(parsed(before)),
            offsetSeqMetadata = parsed(metadata), watermarkPropagator = propagator,
            isFirstBatch = isFirst, currentStateStoreCkptId = stateIds,
            stateSchemaMetadatas = stateSchemas, mode = CommandExecutionMode.ALL(),
            isTerminatingTrigger = isTerminating, isRealTimeMode = false)} {
            private LogicalPlan optimized;

            public synchronized LogicalPlan optimizedPlan() {
                if (optimized == null && data != null) { optimized = kept(); }
                if (optimized == null) {
                    optimized = super.optimizedPlan();
                    if (data != null) { keptPlans.learn(logical(), optimized, data, timestampMs); }
                }
                return optimized;
            }

            private LogicalPlan kept() {
                return (LogicalPlan) executePhase("optimization", new AbstractFunction0() {
                    public Object apply() { return keptPlans.find(logical(), data, timestampMs); }
                });
            }
        };
    }

    /** Whether Spark's analyzer left the plan of a batch unchanged. */
    public boolean isUnchangedByAnalysis(QueryExecution execution) {
        return execution.analyzed().fastEquals(execution.logical());
    }

    /** Whether a batch with this metadata has something to do without new data. */
    public boolean shouldRunAnotherBatch(QueryExecution last, String metadata) {
        return ((IncrementalExecution) last).shouldRunAnotherBatch(parsed(metadata));
    }

    /** The metadata of a batch from its JSON. The last two are kept: each is used several times. */
    private OffsetSeqMetadataBase parsed(String json) {
        if (json == null) { return null; }
        OffsetSeqMetadataBase found = (OffsetSeqMetadataBase) parsedLast.get(json);
        if (found == null) {
            found = OffsetSeqMetadata$.MODULE$.apply(json);
            if (parsedLast.size() == 2) {
                parsedLast.remove(parsedLast.keySet().iterator().next());
            }
            parsedLast.put(json, found);
        }
        return found;
    }

    /** Replaces current_timestamp and the like in a plan by the timestamp of a batch. */
    private static LogicalPlan atTime(LogicalPlan plan, final long timestampMs) {
        return (LogicalPlan) plan.transformAllExpressions(new Everywhere() {
            Object of(Object node) {
                // By class name, since not every Spark has all of them.
                String kind = node.getClass().getSimpleName().replace("Nanos", "");
                boolean hasZone = kind.equals("LocalTimestamp") || kind.equals("CurrentDate");
                if (!hasZone && !kind.equals("CurrentTimestamp")) { return node; }
                // current_timestamp has no time zone, but CurrentBatchTimestamp requires one.
                return ${new CurrentBatchTimestamp(
                    timestampMs = timestampMs, dataType = ((Expression) node).dataType(),
                    timeZoneId = hasZone
                        ? ((TimeZoneAwareExpression) node).timeZoneId()
                        : Option.apply("Dummy TimeZoneId"))};
            }
        });
    }
}
