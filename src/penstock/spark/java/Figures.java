import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;

/** Reads the statistics of a finished batch from the operators of its physical plan. */
public class Figures {
    /** The rows that all scans of a stream have read in a batch; -1 if they are unknown. */
    public long rowsRead(StreamingPlan leaves, QueryExecution execution, SparkDataStream stream) {
        return SourceRows.read(leaves, execution, stream);
    }

    /** The log message for a batch whose rows read are unknown. */
    public String mismatch(QueryExecution execution) { return SourceRows.mismatch(execution); }

    /** One record for each watermark operator: id, delay, max, min, mean, count of event times. */
    public String eventTimes(SparkPlan plan) {
        Records records = new Records();
        int position = 0;
        for (Iterator i = Operators.of(plan, EventTimeWatermarkExec.class); i.hasNext();) {
            EventTimeWatermarkExec operator = (EventTimeWatermarkExec) i.next();
            EventTimeStats seen = (EventTimeStats) valueOf(operator.eventTimeStats());
            records.add(WatermarkIds.of(operator, position++)).add(operator.delayMs());
            records.add(seen.max()).add(seen.min()).add(seen.avg()).add(seen.count()).end();
        }
        return records.toString();
    }

    /** One record for each stateful operator: progress as JSON, names of snapshot metrics. */
    public String stateProgress(SparkPlan plan) {
        Records records = new Records();
        for (Iterator i = Operators.of(plan, StateStoreWriter.class); i.hasNext();) {
            StateOperatorProgress figures = ((StateStoreWriter) i.next()).getProgress();
            records.add(figures.json());
            records.add(SnapshotMetrics.namesIn(figures)).end();
        }
        return records.toString();
    }

    /** The stateful operators. */
    public Seq stateWriters(SparkPlan plan) {
        return Operators.of(plan, StateStoreWriter.class).toSeq();
    }

    /** The state stores of a batch for Spark's commit tracking; null if there is none. */
    public Map stateStores(SparkPlan plan) { return StateStores.of(plan); }

    /** The metric numOutputRows of an operator, 0 if it has none. */
    static long outputRows(SparkPlan operator) {
        Option metric = operator.metrics().get("numOutputRows");
        return metric.isDefined() ? ((Long) valueOf(metric.get())).longValue() : 0L;
    }

    /** Cast to the superclass: Janino finds `value` of a subclass ambiguous. */
    private static Object valueOf(Object accumulator) {
        return ((AccumulatorV2) accumulator).value();
    }
}
