import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;

/** What the operators of a physical plan say of the batch that they have run. */
public class Figures {
    /** The rows that all scans of a stream have read in a batch; -1 if this cannot be told. */
    public long rowsRead(StreamingPlan leaves, QueryExecution execution, SparkDataStream stream) {
        return SourceRows.read(leaves, execution, stream);
    }

    /** Why the rows read in a batch cannot be told. */
    public String mismatch(QueryExecution execution) { return SourceRows.mismatch(execution); }

    /** A record of each watermark operator: id, delay, max, min, mean and count of the times. */
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

    /** A record of each stateful operator: its figures, and the names of those that stay. */
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

    /** The state stores of a batch whose commits Spark counts; null if it does not count. */
    public Map stateStores(SparkPlan plan) { return StateStores.of(plan); }

    /** What an operator counts as its rows, 0 if it does not count. */
    static long outputRows(SparkPlan operator) {
        Option metric = operator.metrics().get("numOutputRows");
        return metric.isDefined() ? ((Long) valueOf(metric.get())).longValue() : 0L;
    }

    /** By the superclass: of the two methods of a subclass this compiler does not choose one. */
    private static Object valueOf(Object accumulator) {
        return ((AccumulatorV2) accumulator).value();
    }
}
