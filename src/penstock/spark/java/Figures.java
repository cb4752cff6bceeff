import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.collection.mutable.HashMap;

/** Reads the statistics of a finished batch from the operators of its physical plan. */
public class Figures {
    /**
     * For each streaming leaf the rows that all scans of its stream have read in a batch, as one
     * record; null if they are unknown. Of leaves that are equal the first has the rows.
     */
    public String rowsRead(StreamingPlan leaves, QueryExecution execution) {
        java.util.Map rows = SourceRows.read(leaves, execution);
        if (rows == null) { return null; }
        Records records = new Records();
        SparkDataStream[] streams = leaves.streams();
        for (int i = 0; i < streams.length; i++) {
            Object read = streams[i] == null ? null : rows.get(streams[i]);
            records.add(read == null ? "0" : read);
        }
        return records.toString();
    }

    /** Adds the rows of a scan to those of its stream. */
    static void addRows(java.util.Map rows, Object stream, SparkPlan scan) {
        Long before = (Long) rows.get(stream);
        long sum = (before == null ? 0L : before.longValue()) + outputRows(scan);
        rows.put(stream, Long.valueOf(sum));
    }

    /** The log message for a batch whose rows read are unknown. */
    public String mismatch(QueryExecution execution) { return SourceRows.mismatch(execution); }

    /** One record for each watermark operator: id, delay, max, min, mean, count of event times. */
    public String eventTimes(QueryExecution execution) {
        Records records = new Records();
        int position = 0;
        SparkPlan plan = execution.executedPlan();
        for (Iterator i = Operators.of(plan, EventTimeWatermarkExec.class); i.hasNext();) {
            EventTimeWatermarkExec operator = (EventTimeWatermarkExec) i.next();
            EventTimeStats seen = (EventTimeStats) valueOf(operator.eventTimeStats());
            records.add(WatermarkIds.of(operator, position++)).add(operator.delayMs());
            records.add(seen.max()).add(seen.min()).add(seen.avg()).add(seen.count()).end();
        }
        return records.toString();
    }

    /** One record for each stateful operator: progress as JSON, names of snapshot metrics. */
    public String stateProgress(QueryExecution execution) {
        Records records = new Records();
        SparkPlan plan = execution.executedPlan();
        for (Iterator i = Operators.of(plan, StateStoreWriter.class); i.hasNext();) {
            StateOperatorProgress figures = ((StateStoreWriter) i.next()).getProgress();
            records.add(figures.json());
            records.add(SnapshotMetrics.namesIn(figures)).end();
        }
        return records.toString();
    }

    /** Puts the ids of the state files of a batch into `known`; the records of `StateFileIds`. */
    public String takeStateIds(QueryExecution execution, HashMap known) {
        Records records = new Records();
        SparkPlan plan = execution.executedPlan();
        for (Iterator i = Operators.of(plan, StateStoreWriter.class); i.hasNext();) {
            StateFileIds.take((StateStoreWriter) i.next(), known, records);
        }
        return records.toString();
    }

    /** The stateful operators. */
    public Seq stateWriters(QueryExecution execution) {
        return Operators.of(execution.executedPlan(), StateStoreWriter.class).toSeq();
    }

    /** The state stores of a batch for Spark's commit tracking; null if there is none. */
    public Map stateStores(QueryExecution execution) {
        return StateStores.of(execution.executedPlan());
    }

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
