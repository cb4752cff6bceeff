import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import scala.Option;
import scala.collection.Iterator;

/** The rows that a batch has read from each stream. Every scan has a reference to its stream. */
class SourceRows {
    /** The plan of a V1 batch, with a reference to the stream in its scans. */
    static LogicalPlan ofStream(LogicalPlan rows, final SparkDataStream stream) {
        return (LogicalPlan) rows.transformUp(new Everywhere() {
            Object of(Object node) {
                return node instanceof StreamSourceAwareLogicalPlan
                    ? ((StreamSourceAwareLogicalPlan) node).withStream(stream) : node;
            }
        });
    }

    /** The rows by stream. */
    static java.util.Map read(StreamingPlan leaves, QueryExecution execution) {
        SparkPlan plan = execution.executedPlan();
        java.util.Map rows = new java.util.HashMap();
        for (Iterator i = Operators.of(plan, StreamSourceAwareSparkPlan.class); i.hasNext();) {
            SparkPlan scan = (SparkPlan) i.next();
            Option stream = ((StreamSourceAwareSparkPlan) scan).getStream();
            if (stream.isDefined()) { Figures.addRows(rows, stream.get(), scan); }
        }
        return rows;
    }

    static String mismatch(QueryExecution execution) { return ""; }
}
