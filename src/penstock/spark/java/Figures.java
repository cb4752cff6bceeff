import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** What the operators of a physical plan say of the batch that they have run. */
public class Figures {
    /** The rows that all scans of a stream have read. */
    public long rowsRead(SparkPlan plan, SparkDataStream stream) {
        Option wanted = Option.apply(stream);
        long rows = 0;
        for (Iterator i = Operators.of(plan, StreamSourceAwareSparkPlan.class); i.hasNext();) {
            Object scan = i.next();
            if (wanted.equals(((StreamSourceAwareSparkPlan) scan).getStream())) {
                Option metric = ((SparkPlan) scan).metrics().get("numOutputRows");
                rows += metric.isDefined() ? ((Long) valueOf(metric.get())).longValue() : 0L;
            }
        }
        return rows;
    }

    /** A record of each watermark operator: id, delay, max, min, mean and count of the times. */
    public String eventTimes(SparkPlan plan) {
        Records records = new Records();
        for (Iterator i = Operators.of(plan, EventTimeWatermarkExec.class); i.hasNext();) {
            EventTimeWatermarkExec operator = (EventTimeWatermarkExec) i.next();
            EventTimeStats seen = (EventTimeStats) valueOf(operator.eventTimeStats());
            records.add(operator.nodeId()).add(operator.delayMs());
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

    /** By the superclass: of the two methods of a subclass this compiler does not choose one. */
    private static Object valueOf(Object accumulator) {
        return ((AccumulatorV2) accumulator).value();
    }
}
