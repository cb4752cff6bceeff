import org.apache.spark.sql.Encoder;
import scala.Option;
import scala.Some;
import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

/** Writes or converts the planned batches of one query, all of which have the same columns. */
public class BatchOutput {
    private static final Option COLLECT = new Some("collect");

    private Encoder encoder;
    private ConfBroadcasts broadcasts;
    private V1Sink sinkOfLog;
    private FileLog log;

    /** Runs a batch whose plan writes to a V2 sink. Returns the rows written, null if unknown. */
    public Long write(final QueryExecution execution) {
        share(execution);
        try {
            SQLExecution.withNewExecutionId(execution, COLLECT, new AbstractFunction0() {
                public Object apply() { return collect(execution); }
            });
        } finally {
            broadcasts.end();
        }
        SparkPlan plan = execution.executedPlan();
        if (plan instanceof WriteToDataSourceV2Exec) {
            Option progress = ((WriteToDataSourceV2Exec) plan).commitProgress();
            if (progress.isDefined()) {
                return Long.valueOf(((StreamWriterCommitProgress) progress.get()).numOutputRows());
            }
        }
        return null;
    }

    /** Calls addBatch of a V1 sink, as one SQL execution. */
    public void addBatch(final V1Sink sink, final long batchId, QueryExecution execution)
            throws Throwable {
        final ClassicDataset rows = dataset(execution);
        if (sink != sinkOfLog) {
            sinkOfLog = sink;
            log = sink instanceof FileStreamSink ? FileLog.of(sink, "fileLog") : null;
        }
        share(execution);
        try {
            SQLExecution.withNewExecutionId(execution, Option.empty(), new AbstractFunction0() {
                public Object apply() {
                    sink.addBatch(batchId, rows);
                    return BoxedUnit.UNIT;
                }
            });
        } finally {
            broadcasts.end();
        }
        if (log != null && (batchId + 1) % log.interval() == 0) { log.deleteExpired(batchId); }
    }

    /** The rows of a batch as an ordinary Dataset, without the streaming plan. */
    public ClassicDataset frame(QueryExecution execution) {
        ClassicDataset batch = dataset(execution);
        share(execution);
        try {
            LogicalPlan rows = ${LogicalRDD.fromDataset(
                rdd = execution.toRdd(), originDataset = batch, isStreaming = false,
                isFromCheckpoint = false)};
            return ClassicDataset.ofRows((ClassicSession) execution.sparkSession(), rows);
        } finally {
            broadcasts.end();
        }
    }

    /**
     * What `Dataset.collect` does inside of its SQL execution, without an encoder for the rows,
     * which Spark would resolve in every batch: the write returns no rows.
     */
    private static Object collect(final QueryExecution execution) {
        return Actions.withId(execution, new AbstractFunction0() {
            public Object apply() {
                String failed = "The \"collect\" action failed.";
                return QueryExecution$.MODULE$.withInternalError(failed, new AbstractFunction0() {
                    public Object apply() {
                        execution.executedPlan().resetMetrics();
                        return execution.executedPlan().executeCollect();
                    }
                });
            }
        });
    }

    /** Shares the configurations that the operators broadcast, until `broadcasts.end`. */
    private void share(QueryExecution execution) {
        if (broadcasts == null) {
            broadcasts = ConfBroadcasts.of(execution.sparkSession().sparkContext());
        }
        broadcasts.begin(((IncrementalExecution) execution).runId());
    }

    private ClassicDataset dataset(QueryExecution execution) {
        if (encoder == null) { encoder = ExpressionEncoder.apply(execution.analyzed().schema()); }
        return new ClassicDataset(execution, encoder);
    }
}
