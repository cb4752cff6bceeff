import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * The rows that a batch has read from each stream. Only V2 scans have a reference to their stream.
 * A V1 scan is matched by position with the leaves of the logical plan, if both plans have the
 * same number of leaves.
 */
class SourceRows {
    static LogicalPlan ofStream(LogicalPlan rows, SparkDataStream stream) { return rows; }

    /** The rows by stream; null if the leaves of the two plans do not match. */
    static java.util.Map read(StreamingPlan leaves, QueryExecution execution) {
        Seq scans = execution.executedPlan().collectLeaves();
        java.util.Map streams = leaves.readsV2Only() ? null : leaves.streamsOfParts();
        Seq parts = streams == null ? null : logicalLeaves(execution);
        if (parts != null && parts.size() != scans.size()) { return null; }
        Iterator part = parts == null ? null : parts.iterator();
        java.util.Map rows = new java.util.HashMap();
        for (Iterator i = scans.iterator(); i.hasNext();) {
            SparkPlan scan = (SparkPlan) i.next();
            Object logical = part == null ? null : part.next();
            Object stream = null;
            if (scan instanceof MicroBatchScanExec) {
                stream = ((MicroBatchScanExec) scan).stream();
            } else if (logical != null) {
                stream = streams.get(logical);
            }
            if (stream != null) { Figures.addRows(rows, stream, scan); }
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
