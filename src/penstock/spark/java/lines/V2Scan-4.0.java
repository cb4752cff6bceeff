import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import scala.Option;

/** The stream of a V2 leaf, and its scans in the plans of batches. */
class V2Scan {
    private final StreamingDataSourceV2Relation relation;
    private final Scan scan;
    private final SparkDataStream stream;

    V2Scan(StreamingRelationV2 leaf, Scan scan, String path) {
        relation = ${new StreamingDataSourceV2Relation(
            table = leaf.table(), output = leaf.output(), catalog = leaf.catalog(),
            identifier = leaf.identifier(), options = leaf.extraOptions(), metadataPath = path,
            realTimeModeDuration = Option.empty(),
            sourceIdentifyingName = leaf.sourceIdentifyingName())};
        this.scan = scan;
        stream = scan.toMicroBatchStream(path);
    }

    /** Whether a node is what `between` returns. */
    static boolean isScan(Object node) { return node instanceof StreamingDataSourceV2ScanRelation; }

    /** Whether the optimizer can ask the stream for statistics, which may change. */
    boolean reportsStatistics() { return scan instanceof SupportsReportStatistics; }

    SparkDataStream stream() { return stream; }

    LogicalPlan between(Offset start, Offset end) {
        return ${new StreamingDataSourceV2ScanRelation(
            relation = relation, scan = scan, output = relation.output(), stream = stream,
            startOffset = Option.apply(start), endOffset = Option.apply(end))};
    }
}
