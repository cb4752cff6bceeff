import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import scala.collection.Seq;

/**
 * The rows that a batch has read from each stream. Only V2 scans have a reference to their stream.
 * A V1 scan is matched by position with the leaves of the logical plan, if both plans have the
 * same number of leaves.
 */
class SourceRows {
    static LogicalPlan ofStream(LogicalPlan rows, SparkDataStream stream) { return rows; }

    static long read(StreamingPlan leaves, QueryExecution execution, SparkDataStream stream) {
        Seq scans = execution.executedPlan().collectLeaves();
        Seq parts = leaves.readsV2Only() ? null : logicalLeaves(execution);
        if (parts != null && parts.size() != scans.size()) { return -1; }
        long rows = 0;
        for (int i = 0; i < scans.size(); i++) {
            SparkPlan scan = (SparkPlan) scans.apply(i);
            Object read = null;
            if (scan instanceof MicroBatchScanExec) {
                read = ((MicroBatchScanExec) scan).stream();
            } else if (parts != null) {
                read = leaves.streamOf((LogicalPlan) parts.apply(i));
            }
            if (stream.equals(read)) { rows += Figures.outputRows(scan); }
        }
        return rows;
    }

    static String mismatch(QueryExecution execution) {
        return "Could not report metrics as number leaves in trigger logical plan did not match "
            + "that of the execution plan:\nlogical plan leaves: "
            + listed(logicalLeaves(execution)) + "\nexecution plan leaves: "
            + listed(execution.executedPlan().collectLeaves()) + "\n";
    }

    private static String listed(Seq leaves) {
        return "(size = " + leaves.size() + "), " + leaves.mkString(", ");
    }

    private static Seq logicalLeaves(QueryExecution execution) {
        return Definitions.inlined(execution.logical()).collectLeaves();
    }
}
